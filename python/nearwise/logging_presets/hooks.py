"""Hooks for a trainer and a tester: record, evaluate, stop early, keep the latest and the best model."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import torch

from nearwise._arguments import natural, positive
from nearwise.logging_presets import checkpoints, history
from nearwise.logging_presets.results import BASELINE, LOSSES, RecordedResults
from nearwise.testers.splits import evaluations, result_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger(__name__)


class HookContainer(RecordedResults):
    """Hooks that write to one record.

    Give ``end_of_iteration_hook`` and what `end_of_epoch_hook` returns to a trainer and ``end_of_testing_hook`` to the
    tester. A trainer is anything with ``epoch``, ``iteration``, ``models``, ``optimizers``, ``lr_schedulers``,
    ``loss_funcs``, ``mining_funcs``, ``loss_tracker.losses`` and ``.loss_weights``, ``get_global_iteration()`` and
    ``step_lr_plateau_schedulers(value)``; the trainers of pytorch-metric-learning 2.9 are.

    Parameters
    ----------
    record_keeper : RecordKeeper
        From `get_record_keeper`; one of the record-keeper package works too.
    record_group_name_prefix : str, optional
        Put before the names of all groups of results.
    primary_metric : str
        Which metric decides about the best model.
    validation_split_name : str
        On which split.
    save_models : bool
        Whether to keep model files.
    log_freq : int
        Record the losses every so many iterations.

    Notes
    -----
    Epoch -1 stands for the untrained model: it is recorded and never the best. NaN is the best only while there is
    nothing else. An epoch that is evaluated again, after a crash, takes the place of its earlier evaluation.

    Examples
    --------
    >>> import tempfile, torch
    >>> from nearwise.logging_presets import get_hook_container, get_record_keeper
    >>> from nearwise.testers import GlobalEmbeddingSpaceTester
    >>> hooks = get_hook_container(get_record_keeper(tempfile.mkdtemp())[0], primary_metric="precision_at_1")
    >>> tester = GlobalEmbeddingSpaceTester(end_of_testing_hook=hooks.end_of_testing_hook, dataloader_num_workers=0)
    >>> val = list(zip(torch.tensor([[2.0, 0.0], [2.0, 0.1], [0.0, 3.0], [0.2, 3.0]]), [0, 0, 1, 1]))
    >>> hooks.run_tester_separately(tester, {"val": val}, 1, torch.nn.Identity(), None)
    True
    >>> hooks.get_accuracy_history(tester, "val")
    {'epoch': [1], 'precision_at_1_level0': [1.0]}
    """

    def __init__(
        self,
        record_keeper: Any,
        record_group_name_prefix: str | None = None,
        primary_metric: str = "mean_average_precision_at_r",
        validation_split_name: str = "val",
        save_models: bool = True,
        log_freq: int = 50,
    ) -> None:
        self.record_keeper = record_keeper
        self.record_group_name_prefix = record_group_name_prefix
        self.primary_metric = primary_metric
        self.validation_split_name = validation_split_name
        self.do_save_models = save_models
        self.log_freq = positive("log_freq", log_freq)
        self._tests_recorded = 0

    def end_of_iteration_hook(self, trainer: Any) -> None:
        """Record losses, their weights, learning rates, and what losses, miners and models offer to be recorded."""
        if trainer.iteration % self.log_freq != 0:
            return
        iteration = trainer.get_global_iteration()
        record = self.record_keeper.update_records
        record(trainer.loss_tracker.losses, iteration, parent_name=LOSSES)
        record(trainer.loss_tracker.loss_weights, iteration, parent_name="loss_weights")
        record(trainer.loss_funcs, iteration, recursive_types=[torch.nn.Module, dict])
        record(getattr(trainer, "mining_funcs", None) or {}, iteration)
        record(trainer.models, iteration)
        record(trainer.optimizers, iteration, custom_attr_func=_learning_rate)

    def end_of_epoch_hook(
        self,
        tester: Any,
        dataset_dict: Mapping[str, Any],
        model_folder: str | os.PathLike[str],
        test_interval: int = 1,
        patience: int | None = None,
        splits_to_eval: Sequence[Any] | None = None,
        test_collate_fn: Callable[..., Any] | None = None,
    ) -> Callable[[Any], bool]:
        """Return the hook for the end of an epoch.

        Parameters
        ----------
        tester : BaseTester
            What evaluates.
        dataset_dict, splits_to_eval, test_collate_fn
            As in the tester's ``test()``.
        model_folder : path
            For the model files; made if missing.
        test_interval : int
            Evaluate every so many epochs; in between the hook does nothing.
        patience : int, optional
            Stop when the best epoch lies more than so many epochs back.

        Returns
        -------
        callable
            From the trainer to True (go on) or False (stop).

        Raises
        ------
        ValueError
            If the primary metric is none of the tester's calculator, the validation split is not evaluated, or two
            splits would have one record.
        """
        positive("test_interval", test_interval)
        if patience is not None:
            natural("patience", patience)
        metrics = list(tester.accuracy_calculator.get_curr_metrics())
        if self.primary_metric not in metrics:
            raise ValueError(
                f"primary_metric must be one of the calculator's metrics {metrics}, got {self.primary_metric!r}"
            )
        base = self.base_record_group_name(tester)
        keys: dict[str, str] = {}
        for query, references in evaluations(dataset_dict, splits_to_eval):
            keys[result_key(query, references, list(keys))] = history.group_name(base, query, references)
        history.check_apart(keys)
        if self.validation_split_name not in keys:
            raise ValueError(
                f"validation_split_name must be one of {list(keys)}, the splits evaluated, "
                f"got {self.validation_split_name!r}"
            )
        os.makedirs(model_folder, exist_ok=True)

        def hook(trainer: Any) -> bool:
            if trainer.epoch % test_interval != 0:
                return True
            best_epoch = self.save_models_and_eval(
                trainer, dataset_dict, model_folder, test_interval, tester, splits_to_eval, test_collate_fn
            )
            return self.patience_remaining(trainer.epoch, best_epoch, patience)

        return hook

    def end_of_testing_hook(self, tester: Any) -> None:
        """Record the results of every split with the best epoch and accuracy so far."""
        self._tests_recorded += 1
        groups = {key: self._group(tester, key) for key in tester.all_accuracies}
        history.check_apart(groups)
        for key, accuracies in tester.all_accuracies.items():
            epoch = accuracies["epoch"]
            _, _, best_epoch, best_accuracy = self.is_new_best_accuracy(tester, key, epoch)
            row = {**accuracies, "best_epoch": best_epoch, "best_accuracy": best_accuracy}
            self.record_keeper.update_records(row, epoch, parent_name=groups[key])

    def save_models_and_eval(
        self,
        trainer: Any,
        dataset_dict: Mapping[str, Any],
        model_folder: str | os.PathLike[str],
        test_interval: int,
        tester: Any,
        splits_to_eval: Sequence[Any] | None = None,
        collate_fn: Callable[..., Any] | None = None,
    ) -> int | None:
        """Evaluate, record, step the plateau schedulers, save the latest model and, if it is, the best.

        Returns
        -------
        int or None
            The best epoch.
        """
        epoch, models = trainer.epoch, trainer.models
        self._test(tester, dataset_dict, epoch, models["trunk"], models.get("embedder"), splits_to_eval, collate_fn)
        is_new, current, best_epoch, _ = self.is_new_best_accuracy(tester, self.validation_split_name, epoch)
        self.record_keeper.save_records()
        trainer.step_lr_plateau_schedulers(current)
        if self.do_save_models:
            things = checkpoints.stateful(trainer)
            checkpoints.save(things, model_folder, str(epoch))
            if is_new and epoch != BASELINE:
                logger.info("new best %s: %s", self.primary_metric, current)
                checkpoints.save(things, model_folder, f"best{epoch}")
            if best_epoch not in (None, BASELINE):
                checkpoints.keep_best(things, model_folder, best_epoch)
            checkpoints.keep_latest(things, model_folder, epoch)
        return None if best_epoch == BASELINE else best_epoch

    def load_latest_saved_models(
        self, trainer: Any, model_folder: str | os.PathLike[str], device: Any = None, best: bool = False
    ) -> int:
        """Load the newest model files, or the best, into a trainer.

        Parameters
        ----------
        trainer : object
            With the objects to load into.
        model_folder : path
            Where the files are; need not exist.
        device : str or torch.device, optional
            Where to load to; by default CUDA if there is one.
        best : bool
            Load the best model.

        Returns
        -------
        int
            The epoch to go on with: one after that of the files, 1 where there are none.

        Raises
        ------
        FileNotFoundError
            If there are files, and of no epoch all of them: a model is not loaded in parts.
        """
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        epoch = checkpoints.load_newest(checkpoints.stateful(trainer), model_folder, device, best=best)
        return 1 if epoch is None else epoch + 1

    def is_new_best_accuracy(self, tester: Any, split_name: str, epoch: Any) -> tuple[bool, float, Any, float]:
        """Return whether the tester's last result is the best so far, its value, the best epoch and its value."""
        current = self.get_curr_primary_metric(tester, split_name)
        best_epoch, best_accuracy = self.get_best_epoch_and_accuracy(tester, split_name, (BASELINE, epoch))
        if best_epoch is None or history.is_better(current, best_accuracy):
            return True, current, epoch, current
        return False, current, best_epoch, best_accuracy

    def get_curr_primary_metric(self, tester: Any, split_name: str) -> float:
        """Return the primary metric of the tester's last result.

        Raises
        ------
        ValueError
            If the split was not evaluated, or the metric is no single number.
        KeyError
            If the result lacks the metric.
        """
        if split_name not in tester.all_accuracies:
            raise ValueError(f"split {split_name!r} must be one of those evaluated, {list(tester.all_accuracies)}")
        accuracies = tester.all_accuracies[split_name]
        value = accuracies[history.metric_column(tester, self.primary_metric, accuracies)]
        if isinstance(value, list):
            raise ValueError(
                f"primary_metric {self.primary_metric!r} must be one number, got one for each of {len(value)} classes"
            )
        return float(value)

    def patience_remaining(self, epoch: int, best_epoch: int | None, patience: int | None) -> bool:
        """Return whether training should go on."""
        if patience is None or best_epoch is None or epoch - best_epoch <= patience:
            return True
        logger.info("no better result since epoch %d: stopping", best_epoch)
        return False

    def run_tester_separately(
        self,
        tester: Any,
        dataset_dict: Mapping[str, Any],
        epoch: Any,
        trunk: Any,
        embedder: Any,
        splits_to_eval: Sequence[Any] | None = None,
        collate_fn: Callable[..., Any] | None = None,
        skip_eval_if_already_done: bool = True,
    ) -> bool:
        """Evaluate outside of a training and record the results.

        Parameters
        ----------
        splits_to_eval : sequence of (str, sequence of str) or of str, optional
            As in ``test()``; a name alone stands for the split in itself.
        skip_eval_if_already_done : bool
            Leave out what is recorded for this epoch.

        Returns
        -------
        bool
            Whether anything was evaluated.
        """
        given = list(dataset_dict) if splits_to_eval is None else splits_to_eval
        pairs = [(entry, [entry]) if isinstance(entry, str) else entry for entry in given]
        if skip_eval_if_already_done:
            pairs = [pair for pair in pairs if not self._is_recorded(tester, pair, epoch)]
            if not pairs:
                logger.info("epoch %s is evaluated already", epoch)
                return False
        self._test(tester, dataset_dict, epoch, trunk, embedder, pairs, collate_fn)
        self.record_keeper.save_records()
        return True

    def _test(self, tester: Any, *arguments: Any) -> None:
        """Run the tester and record its results, unless its own hook did: one of the user's may do something else."""
        recorded = self._tests_recorded
        tester.test(*arguments)
        if self._tests_recorded == recorded:
            HookContainer.end_of_testing_hook(self, tester)


def _learning_rate(optimizer: Any) -> dict[str, float]:
    """Return the learning rate of an optimizer's first group."""
    return {"lr": optimizer.param_groups[0]["lr"]}
