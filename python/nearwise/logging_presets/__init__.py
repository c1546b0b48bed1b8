"""Ready-made logging for a training: histories, early stopping, the best and the latest model.

`get_record_keeper` opens the record of an experiment (CSV files, a SQLite database, TensorBoard); `get_hook_container`
wraps it in hooks for a trainer and a tester. The formats are those of the record-keeper package, which reads and goes
on with our files as we do with its. They need the extra ``nearwise[logging]``.

Examples
--------
>>> import tempfile
>>> from nearwise.logging_presets import get_hook_container, get_record_keeper
>>> record_keeper, record_writer, tensorboard_writer = get_record_keeper(tempfile.mkdtemp())
>>> hooks = get_hook_container(record_keeper, primary_metric="precision_at_1")
>>> hooks.primary_metric
'precision_at_1'

A trainer then gets ``hooks.end_of_iteration_hook`` and ``hooks.end_of_epoch_hook(tester, dataset_dict, folder)``, a
tester ``hooks.end_of_testing_hook``.
"""

from nearwise.logging_presets.presets import EmptyContainer, get_hook_container, get_record_keeper
from nearwise.logging_presets.record_keeper import RecordKeeper
from nearwise.logging_presets.record_writer import RecordWriter

__all__ = [
    "EmptyContainer",
    "HookContainer",
    "RecordKeeper",
    "RecordWriter",
    "get_hook_container",
    "get_record_keeper",
]


def __getattr__(name: str) -> object:
    # The hooks need torch; the records do not.
    if name == "HookContainer":
        from nearwise.logging_presets.hooks import HookContainer

        return HookContainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
