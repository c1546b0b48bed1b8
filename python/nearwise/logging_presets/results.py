"""What is recorded of losses and results, read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearwise.logging_presets import history
from nearwise.logging_presets.database import ITERATION
from nearwise.logging_presets.record_keeper import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The epoch of an untrained model.
BASELINE = -1
# The group of losses.
LOSSES = "loss_histories"


class RecordedResults:
    """The recorded losses of a training and the recorded results of testers."""

    record_keeper: Any
    record_group_name_prefix: str | None
    primary_metric: str

    def get_loss_history(self, loss_names: Iterable[str] = ()) -> dict[str, list[Any]]:
        """Return the recorded series of some losses, or of all with their iterations; empty before any.

        An iteration that was done again, after a crash, counts as it was done last.

        Raises
        ------
        ValueError
            If there is no such loss.
        """
        available = history.columns(self.record_keeper, LOSSES)
        if not available:
            return {}
        names = list(loss_names) or available
        for name in names:
            if name not in available:
                raise ValueError(f"loss_names must be among the recorded {available}, got {name!r}")
        found = history.newest(self.record_keeper, LOSSES, ITERATION, names)
        return {name: [row[name] for row in found] for name in names}

    def get_accuracy_history(
        self, tester: Any, split_name: str, return_all_metrics: bool = False, metrics: Iterable[str] = ()
    ) -> dict[str, list[Any]]:
        """Return the recorded results of a split as one list for each column, by epoch.

        Parameters
        ----------
        tester : BaseTester
            Whose settings name the record; it need not have run in this process.
        split_name : str
            The query split, or the key of a result.
        return_all_metrics : bool
            Return all columns, ``best_epoch``, ``best_accuracy`` and ``~iteration~`` among them.
        metrics : iterable of str
            Which metrics to return beside ``epoch``; by default the primary one.

        Returns
        -------
        dict of list
            Empty where nothing is recorded.
        """
        group = self._group(tester, split_name)
        available = history.columns(self.record_keeper, group)
        if not available:
            return {}
        if return_all_metrics:
            names = available
        else:
            wanted = list(metrics) or [self.primary_metric]
            names = ["epoch", *(history.metric_column(tester, metric, available) for metric in wanted)]
        found = history.rows(self.record_keeper, group, names)
        return {name: [row[name] for row in found] for name in names}

    def get_accuracies_of_epoch(
        self, tester: Any, split_name: str, epoch: Any, select_all: bool = True
    ) -> list[dict[str, Any]]:
        """Return the recorded result of an epoch, in a list that is empty if there is none."""
        return [row for row in self._rows(tester, split_name, select_all)[0] if row["epoch"] == epoch]

    def get_accuracies_of_best_epoch(
        self, tester: Any, split_name: str, select_all: bool = True, ignore_epoch: Iterable[Any] = (BASELINE,)
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return the result of the best epoch, in a list, and the column that decided; ``([], None)`` if none."""
        found, column = self._rows(tester, split_name, select_all)
        chosen = history.best(found, column, ignore_epoch) if column else None
        return ([], None) if chosen is None else ([chosen], column)

    def get_best_epoch_and_accuracy(
        self, tester: Any, split_name: str, ignore_epoch: Iterable[Any] = (BASELINE,)
    ) -> tuple[Any, float]:
        """Return the best recorded epoch and its value; ``(None, 0)`` where there is none."""
        found, column = self.get_accuracies_of_best_epoch(tester, split_name, False, ignore_epoch)
        return (found[0]["epoch"], found[0][column]) if found and column else (None, 0)

    def base_record_group_name(self, tester: Any) -> str:
        """Return the part of a group's name that says what was tested how."""
        prefix = f"{self.record_group_name_prefix}_" if self.record_group_name_prefix else ""
        return prefix + str(tester.description_suffixes("accuracies"))

    def record_group_name(self, tester: Any, split_name: str) -> str:
        """Return the name of a result's table and CSV file; a very long one is shortened by hashing."""
        return shortened(self._group(tester, split_name))

    def _group(self, tester: Any, key: str) -> str:
        """Return the whole name of a result's group."""
        base = self.base_record_group_name(tester)
        if key in tester.reference_split_names:
            query = getattr(tester, "query_split_names", {}).get(key, key)
            return history.group_name(base, query, tester.reference_split_names[key])
        return history.recorded_group(self.record_keeper, base, key)

    def _rows(self, tester: Any, key: str, select_all: bool) -> tuple[list[dict[str, Any]], str | None]:
        """Return the recorded results of a split, and the column of the primary metric."""
        group = self._group(tester, key)
        available = history.columns(self.record_keeper, group)
        if not available:
            return [], None
        column = history.metric_column(tester, self.primary_metric, available)
        return history.rows(self.record_keeper, group, available if select_all else [column]), column

    def _is_recorded(self, tester: Any, pair: tuple[str, Sequence[str]], epoch: Any) -> bool:
        """Return whether the record has a row of this evaluation and epoch."""
        query, references = pair
        group = history.group_name(self.base_record_group_name(tester), query, set(references))
        if not self.record_keeper.table_exists(shortened(group)):
            return False
        return any(row["epoch"] == epoch for row in history.rows(self.record_keeper, group, ["epoch"]))
