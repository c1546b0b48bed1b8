"""Model files of a training: the latest and the best of every object with a state.

A set of files is written under temporary names first and then renamed, the trunk's last, so that a killed process
leaves a whole set: the old one, the new one, or both.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from nearwise._files import remove_unfinished, replacing

logger = logging.getLogger(__name__)

KINDS = ("models", "optimizers", "lr_schedulers", "loss_funcs", "mining_funcs")


def stateful(trainer: Any) -> dict[str, Any]:
    """Return the trainer's objects that have a state, by key, the one that marks a whole set last."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for key, thing in (getattr(trainer, kind, None) or {}).items():
            if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
                found[key] = getattr(thing, "module", thing) if _is_parallel(thing) else thing
    last = _marker(found)
    return {key: found[key] for key in sorted(found, key=lambda key: key == last)}


def save(things: dict[str, Any], folder: str | os.PathLike[str], suffix: str) -> None:
    """Write ``<folder>/<key>_<suffix>.pth`` of every object."""
    remove_unfinished(folder, ".pth")
    with ExitStack() as stack:
        # The stack closes, and so renames, in reverse order: the marker goes in first.
        for key in reversed(things):
            torch.save(things[key].state_dict(), stack.enter_context(replacing(_path(folder, key, suffix))))


def delete(things: dict[str, Any], folder: str | os.PathLike[str], suffix: str) -> None:
    """Remove the files of a set, the marker first; what is missing is no error."""
    for key in reversed(things):
        _path(folder, key, suffix).unlink(missing_ok=True)


def epochs(things: dict[str, Any], folder: str | os.PathLike[str], *, best: bool = False) -> list[int]:
    """Return the epochs of which there are files of the marker, newest first; an epoch below 0 is none."""
    if not things or not Path(folder).is_dir():
        return []
    return sorted((e for e in _saved(folder, _marker(things), "best" if best else "") if e >= 0), reverse=True)


def load_newest(
    things: dict[str, Any], folder: str | os.PathLike[str], device: Any, *, best: bool = False
) -> int | None:
    """Load the newest whole set of files and return its epoch; None where there is no set.

    Raises
    ------
    FileNotFoundError
        If there are sets, and all lack files.
    """
    found = epochs(things, folder, best=best)
    if not found:
        return None
    prefix = "best" if best else ""
    whole = [e for e in found if all(_path(folder, key, f"{prefix}{e}").exists() for key in things)]
    if not whole:
        missing = [str(path) for key in things if not (path := _path(folder, key, f"{prefix}{found[0]}")).exists()]
        raise FileNotFoundError(f"the model files of epoch {found[0]} must be whole, missing are {missing}")
    epoch = whole[0]
    states = {
        key: torch.load(_path(folder, key, f"{prefix}{epoch}"), map_location=device, weights_only=True)
        for key in things
    }
    for key, state in states.items():
        things[key].load_state_dict(_unwrapped(state))
        logger.info("loaded %s of epoch %d", key, epoch)
    return epoch


def keep_latest(things: dict[str, Any], folder: str | os.PathLike[str], epoch: int) -> None:
    """Remove the latest sets of all other epochs: also of later ones, from which a training has turned back."""
    for key in reversed(things):
        for other in _saved(folder, key):
            if other != epoch:
                _path(folder, key, str(other)).unlink(missing_ok=True)


def keep_best(things: dict[str, Any], folder: str | os.PathLike[str], epoch: int) -> None:
    """See to the one best set being that of `epoch`: complete it from the latest of that epoch, remove all others.

    A process killed between the saving of the latest and of the best model leaves the first alone.
    """
    if not _path(folder, _marker(things), f"best{epoch}").exists():
        sources = {key: _path(folder, key, str(epoch)) for key in things}
        if not all(source.exists() for source in sources.values()):
            logger.warning("no files of the best epoch %d are left: those of an earlier best stay", epoch)
            return
        for key, source in sources.items():
            with source.open("rb") as old, replacing(_path(folder, key, f"best{epoch}")) as new:
                shutil.copyfileobj(old, new)
    for other in epochs(things, folder, best=True):
        if other != epoch:
            delete(things, folder, f"best{other}")


def _saved(folder: str | os.PathLike[str], key: str, prefix: str = "") -> list[int]:
    """Return the epochs of which there are files of an object; the untrained model's is -1."""
    pattern = re.compile(rf"{re.escape(key)}_{prefix}(-?\d+)\.pth")
    return [int(match[1]) for name in os.listdir(folder) if (match := pattern.fullmatch(name))]


def _marker(things: dict[str, Any]) -> str:
    """Return the key whose file says that a set is whole."""
    return "trunk" if "trunk" in things else next(iter(things), "")


def _path(folder: str | os.PathLike[str], key: str, suffix: str) -> Path:
    """Return the file of an object."""
    return Path(folder, f"{key}_{suffix}.pth")


def _is_parallel(thing: Any) -> bool:
    """Return whether an object wraps the module whose state counts."""
    return isinstance(thing, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel)


def _unwrapped(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as of the bare module, though it was saved through a parallel wrapper."""
    prefix = "module."
    if state and all(isinstance(key, str) and key.startswith(prefix) for key in state):
        return {key.removeprefix(prefix): value for key, value in state.items()}
    return state
