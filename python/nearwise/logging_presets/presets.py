"""Opening a record, and the hooks that write to it, where the packages for it are present."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nearwise.logging_presets.record_keeper import RecordKeeper
from nearwise.logging_presets.record_writer import RecordWriter

if TYPE_CHECKING:
    import os

    from nearwise.logging_presets.hooks import HookContainer

logger = logging.getLogger(__name__)

# The attributes by which pytorch-metric-learning's losses, miners and models say what to record of them.
RECORDABLE = ("_record_these", "_record_these_stats")


class EmptyContainer:
    """The hooks when there is no record: none."""

    end_of_iteration_hook = None
    end_of_testing_hook = None

    def end_of_epoch_hook(self, *args: Any, **kwargs: Any) -> None:
        """Return None, whatever the arguments."""


def get_record_keeper(
    csv_folder: str | os.PathLike[str],
    tensorboard_folder: str | os.PathLike[str] | None = None,
    global_db_path: str | os.PathLike[str] | None = None,
    experiment_name: str | None = None,
    is_new_experiment: bool = True,
    save_lists: bool = False,
) -> tuple[Any, Any, Any]:
    """Open the record of an experiment, or go on with the one in the folder.

    Parameters
    ----------
    csv_folder : path
        For the CSV files and the SQLite database ``logs.db``; made if missing.
    tensorboard_folder : path, optional
        For TensorBoard's event files; None writes none.
    global_db_path, experiment_name, is_new_experiment, save_lists
        See `RecordWriter`.

    Returns
    -------
    (RecordKeeper, RecordWriter, SummaryWriter or None)
        Or three times None, with warnings, where torch is missing, or tensorboard though a folder for it is given.

    Examples
    --------
    >>> import tempfile
    >>> keeper, writer, _ = get_record_keeper(tempfile.mkdtemp())
    >>> keeper.update_records({"total_loss": 0.5}, 1, parent_name="loss_histories")
    >>> keeper.save_records()
    >>> get_hook_container(keeper).get_loss_history(["total_loss"])
    {'total_loss': [0.5]}
    """
    try:
        import torch  # noqa: F401

        tensorboard_writer = None
        if tensorboard_folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            tensorboard_writer = SummaryWriter(log_dir=str(tensorboard_folder))
    except ModuleNotFoundError as error:
        logger.warning("%s", error)
        logger.warning("nothing will be logged and no model saved: pip install 'nearwise[logging]'")
        return None, None, None
    record_writer = RecordWriter(csv_folder, global_db_path, experiment_name, is_new_experiment, save_lists)
    return RecordKeeper(tensorboard_writer, record_writer, RECORDABLE), record_writer, tensorboard_writer


def get_hook_container(record_keeper: Any, **kwargs: Any) -> HookContainer | EmptyContainer:
    """Return the hooks for a record: a `HookContainer` with these arguments, or for None an `EmptyContainer`.

    Examples
    --------
    >>> print(get_hook_container(None).end_of_testing_hook)
    None
    """
    if record_keeper is None:
        logger.warning("no record_keeper: the hooks are empty")
        return EmptyContainer()
    from nearwise.logging_presets.hooks import HookContainer

    return HookContainer(record_keeper, **kwargs)
