"""`nearwise info`: what this installation can do on this machine."""

import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import click
import numpy as np

import nearwise
from nearwise._arguments import checked_threads
from nearwise.backends import rust

OPTIONAL = {
    "torch": "tensors, CUDA, embedding metrics, testers",
    "faiss": "FaissKNN, FaissKMeans",
    "sklearn": "clustering metrics",
    "torchmetrics": "embedding metrics",
    "matplotlib": "plots",
    "pyarrow": "Parquet files",
    "tensorboard": "TensorBoard logs",
}


@click.command(short_help="Versions, instruction set, threads, optional packages.")
def command() -> None:
    """Say which nearwise this is, how it will run here and which optional packages it has found."""
    level, available = rust.levels()
    lines = {
        "nearwise": nearwise.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "numpy": np.__version__,
        "level": f"{level} (of {', '.join(available)}; NEARWISE_SIMD lowers it)",
        "threads": f"{checked_threads(None) or _available_threads()} (NEARWISE_NUM_THREADS sets it)",
    }
    lines |= {name: f"{_installed(name)} ({use})" for name, use in OPTIONAL.items()}
    width = max(map(len, lines))
    for name, text in lines.items():
        click.echo(f"{name:<{width}}  {text}")


def _available_threads() -> int:
    count = getattr(os, "sched_getaffinity", None)
    return len(count(0)) if count else os.cpu_count() or 1


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "present"


def _installed(module: str) -> str:
    distributions = {"faiss": "faiss-cpu", "sklearn": "scikit-learn"}
    if importlib.util.find_spec(module) is None:
        return "not installed"
    return _version(distributions.get(module, module))
