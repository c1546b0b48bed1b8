import csv
import math
import os
import random
import signal
import sqlite3
import time

import pytest
import torch

from logging_presets.training import P1, Run, Scripted, Trainer, both, make
from nearwise.logging_presets import HookContainer, checkpoints, get_hook_container, get_record_keeper
from nearwise.testers import GlobalEmbeddingSpaceTester

SEQUENCE = (0.5, 0.7, 0.7, 0.6, 0.65, 0.9)


@pytest.mark.rule("H-1", "H-12")
def test_losses_are_recorded_every_so_many_iterations(tmp_path):
    run = Run(tmp_path, log_freq=5)
    for epoch in range(1, 7):
        run.trainer.epoch = epoch
        for iteration in range(10):
            run.trainer.iteration = iteration
            run.trainer.loss_tracker.losses["metric_loss"] = torch.tensor(float(epoch))
            run.hooks.end_of_iteration_hook(run.trainer)
    run.keeper.save_records()
    history = run.hooks.get_loss_history()
    assert history["~iteration~"] == list(range(0, 60, 5))
    assert history["metric_loss"] == [float(epoch) for epoch in range(1, 7) for _ in range(2)]
    assert history["total_loss"] == [0.5] * 12
    assert run.hooks.get_loss_history(loss_names=["total_loss"]) == {"total_loss": [0.5] * 12}
    assert run.keeper.query("SELECT lr FROM trunk_optimizer_Adam", return_dict=True) == {"lr": [0.25] * 12}
    assert run.keeper.query("SELECT metric_loss FROM loss_weights", return_dict=True) == {"metric_loss": [1] * 12}


@pytest.mark.rule("H-1")
def test_what_objects_offer_to_be_recorded_is(tmp_path):
    class Loss(torch.nn.Module):
        def __init__(self, *parts):
            super().__init__()
            self.count, self.norm, self.hidden = 3, torch.tensor(0.5), 9
            self._record_these, self._record_these_stats = ["count"], ["norm"]
            self.part = torch.nn.ModuleList(parts)
            self.weight = torch.nn.Parameter(torch.ones(()))

    run = Run(tmp_path, log_freq=1)
    run.trainer.loss_funcs = {"metric_loss": Loss(Loss())}
    run.trainer.mining_funcs = {"tuple_miner": Loss()}
    run.hooks.end_of_iteration_hook(run.trainer)
    run.keeper.save_records()
    for group in ("metric_loss_Loss", "tuple_miner_Loss"):
        assert run.keeper.query(f"SELECT count, norm FROM {group}", return_dict=True) == {"count": [3], "norm": [0.5]}
    nested = [name for name in run.keeper.record_writer.local_db.tables() if "part" in name]
    assert len(nested) == 1
    assert not any("parameters" in name for name in run.keeper.record_writer.local_db.tables())


@pytest.mark.rule("H-12")
def test_without_losses_the_history_is_empty(tmp_path):
    assert Run(tmp_path).hooks.get_loss_history() == {}


@pytest.mark.rule("H-2")
def test_a_primary_metric_that_the_calculator_lacks_is_refused(tmp_path):
    keeper = get_record_keeper(tmp_path)[0]
    hooks = get_hook_container(keeper)
    with pytest.raises(ValueError, match=r"one of .*'precision_at_1'.*got 'mean_average_precision_at_r'"):
        hooks.end_of_epoch_hook(make(GlobalEmbeddingSpaceTester, Scripted()), both(), tmp_path / "models")


@pytest.mark.rule("H-2")
def test_the_model_folder_is_made(tmp_path):
    assert Run(tmp_path / "a" / "b").folder.is_dir()


@pytest.mark.rule("H-3", "H-10", "T-0")
def test_training_stops_when_the_best_epoch_lies_too_far_back(tmp_path):
    run = Run(tmp_path, *SEQUENCE, patience=2)
    answers, best = run.epochs(*range(1, 7))
    assert answers == [True, True, True, True, False, True]
    assert best == [(1, 0.5), (2, 0.7), (2, 0.7), (2, 0.7), (2, 0.7), (6, 0.9)]
    assert run.history() == {"epoch": [1, 2, 3, 4, 5, 6], P1: list(SEQUENCE)}
    whole = run.history(return_all_metrics=True)
    assert whole["best_epoch"] == [1, 2, 2, 2, 2, 6]
    assert whole["best_accuracy"] == [0.5, 0.7, 0.7, 0.7, 0.7, 0.9]
    assert whole["~iteration~"] == whole["epoch"] == [1, 2, 3, 4, 5, 6]
    assert run.history(metrics=["precision_at_1"]) == run.history()


@pytest.mark.rule("H-4")
def test_patience_counts_epochs_and_only_some_are_evaluated(tmp_path):
    run = Run(tmp_path, 0.6, 0.3, 0.7, test_interval=2, patience=1)
    answers, _ = run.epochs(*range(1, 7))
    assert answers == [True, True, True, False, True, True]
    assert run.history()["epoch"] == [2, 4, 6]
    assert run.files() == sorted(
        f"{key}_{suffix}.pth" for key in checkpoints.stateful(run.trainer) for suffix in ("6", "best6")
    )


@pytest.mark.rule("H-5")
def test_recording_comes_before_schedulers_and_those_before_saving(tmp_path, monkeypatch):
    events = []
    run = Run(tmp_path, 0.5)

    def spy(owner, name, event):
        original = getattr(owner, name)

        def called(*args, **kwargs):
            events.append(event if isinstance(event, str) else event(args))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)

    spy(run.tester, "test", "test")
    spy(run.keeper, "save_records", "records")
    spy(run.trainer, "step_lr_plateau_schedulers", lambda args: f"plateau {args[0]}")
    spy(checkpoints, "save", lambda args: f"save {args[2]}")
    run.epochs(1)
    assert events == ["test", "records", "plateau 0.5", "save 1", "save best1"]


@pytest.mark.rule("H-6")
def test_the_latest_and_the_best_of_everything_with_a_state_are_kept(tmp_path):
    run = Run(tmp_path, *SEQUENCE)
    optimizer = run.trainer.optimizers["trunk_optimizer"]
    run.trainer.lr_schedulers = {"trunk_scheduler_by_epoch": torch.optim.lr_scheduler.StepLR(optimizer, 2)}
    run.trainer.mining_funcs = {"tuple_miner": torch.nn.Identity(), "subset": object()}
    run.epochs(*range(1, 7))
    keys = ["trunk", "embedder", "trunk_optimizer", "metric_loss", "tuple_miner", "trunk_scheduler_by_epoch"]
    assert run.files() == sorted(f"{key}_{suffix}.pth" for key in keys for suffix in ("6", "best6"))
    state = torch.load(run.folder / "trunk_best6.pth")
    assert state["weight"].unique().tolist() == [6]


@pytest.mark.rule("H-6")
def test_a_parallel_module_is_saved_and_loaded_as_the_module_itself(tmp_path):
    run = Run(tmp_path, 0.5)
    bare = run.trainer.models["trunk"]
    run.trainer.models["trunk"] = torch.nn.DataParallel(bare)
    run.trainer.epoch = 1
    checkpoints.save(checkpoints.stateful(run.trainer), run.folder, "1")
    assert set(torch.load(run.folder / "trunk_1.pth")) == {"weight", "bias"}
    # A file of the wrapper itself can be loaded too, into either.
    torch.save(run.trainer.models["trunk"].state_dict(), run.folder / "trunk_1.pth")
    torch.nn.init.zeros_(bare.weight)
    assert run.hooks.load_latest_saved_models(run.trainer, run.folder) == 2
    assert bare.weight.abs().sum() > 0


@pytest.mark.rule("H-6")
def test_without_saving_models_the_history_is_kept_all_the_same(tmp_path):
    run = Run(tmp_path, *SEQUENCE, save_models=False, patience=2)
    answers, _ = run.epochs(*range(1, 7))
    assert answers == [True, True, True, True, False, True]
    assert run.files() == []
    assert run.history()["epoch"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.rule("H-7", "H-9")
def test_every_split_has_a_row_for_each_evaluation(tmp_path):
    run = Run(tmp_path, 0.25, 0.5, 0.75, 0.5)
    run.datasets.update(both())
    run.epochs(1, 2)
    base = "accuracies_normalized_GlobalEmbeddingSpaceTester_level_0"
    expected = {
        "VAL": [(1, 0.25, 1, 0.25), (2, 0.75, 2, 0.75)],
        "TRAIN": [(1, 0.5, 1, 0.5), (2, 0.5, 1, 0.5)],
    }
    for split, rows in expected.items():
        with (tmp_path / "records" / f"{base}_{split}_vs_self.csv").open() as file:
            header, *lines = csv.reader(file)
        assert header == ["~iteration~", "epoch", P1, "best_epoch", "best_accuracy"]
        assert [tuple(map(float, line)) for line in lines] == [(row[0], *row) for row in rows]


@pytest.mark.rule("H-8")
def test_the_group_says_what_was_tested_against_what(tmp_path):
    run = Run(tmp_path, 0.5, 0.5)
    base = "accuracies_normalized_GlobalEmbeddingSpaceTester_level_0"
    run.epochs(1)
    assert run.hooks.record_group_name(run.tester, "val") == f"{base}_VAL_vs_self"
    run.tester.test(both(), 2, torch.nn.Identity(), splits_to_eval=[("val", ["val", "train"])])
    assert run.hooks.record_group_name(run.tester, "val") == f"{base}_VAL_vs_TRAIN_and_VAL"
    prefixed = get_hook_container(run.keeper, record_group_name_prefix="mine")
    assert prefixed.base_record_group_name(run.tester) == f"mine_{base}"


@pytest.mark.rule("H-8", "T-4")
def test_results_against_several_reference_sets_have_groups_of_their_own(tmp_path):
    run = Run(tmp_path, 0.5, 0.25, splits_to_eval=[("val", ["val"])])
    run.tester.test(both(), 1, torch.nn.Identity(), splits_to_eval=[("val", ["val"]), ("val", ["train"])])
    run.keeper.save_records()
    assert run.history()[P1] == [0.5]
    assert run.hooks.get_accuracy_history(run.tester, "val_vs_train")[P1] == [0.25]
    again = Run(tmp_path)
    assert again.hooks.get_accuracy_history(again.tester, "val_vs_train")[P1] == [0.25]
    assert again.hooks.record_group_name(again.tester, "val_vs_train").endswith("_VAL_vs_TRAIN")


@pytest.mark.rule("H-8")
def test_the_history_of_a_very_long_group_is_found_in_a_new_process(tmp_path):
    prefix = "an_experiment_with_a_rather_long_name_that_says_everything_about_it"
    run = Run(tmp_path, 0.5, 0.7, record_group_name_prefix=prefix)
    run.epochs(1, 2)
    name = run.hooks.record_group_name(run.tester, "val")
    assert len(name) < 100
    assert (tmp_path / "records" / f"{name}.csv").exists()
    again = Run(tmp_path, 0.6, record_group_name_prefix=prefix)
    assert again.keeper.hash_map[name].startswith(prefix)
    assert again.history() == {"epoch": [1, 2], P1: [0.5, 0.7]}
    assert again.epochs(3)[1] == [(2, 0.7)]
    other = get_hook_container(again.keeper, primary_metric="precision_at_1", record_group_name_prefix=prefix)
    again.tester.reference_split_names.clear()
    assert other.get_best_epoch_and_accuracy(again.tester, "val") == (2, 0.7)


@pytest.mark.rule("H-9")
def test_tensorboard_reads_the_same_values(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    keeper, _, writer = get_record_keeper(tmp_path / "records", tmp_path / "events")
    run = Run(tmp_path, *SEQUENCE, keeper=keeper, log_freq=1)
    run.epochs(*range(1, 7))
    run.hooks.end_of_iteration_hook(run.trainer)
    writer.close()
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    group = run.hooks.record_group_name(run.tester, "val")
    scalars = [(e.step, e.value) for e in events.Scalars(f"{group}/{P1}")]
    assert scalars == [(i + 1, pytest.approx(v)) for i, v in enumerate(SEQUENCE)]
    assert [e.value for e in events.Scalars("loss_histories/total_loss")] == [0.5]


@pytest.mark.rule("H-10")
def test_without_a_record_the_history_is_empty(tmp_path):
    run = Run(tmp_path)
    assert run.history() == {}
    assert run.hooks.get_accuracy_history(run.tester, "never tested", return_all_metrics=True) == {}


@pytest.mark.rule("H-10", "H-17")
def test_a_new_process_reads_the_history_before_it_tests_anything(tmp_path):
    Run(tmp_path, 0.5, 0.7).epochs(1, 2)
    again = Run(tmp_path, 0.3)
    assert again.history() == {"epoch": [1, 2], P1: [0.5, 0.7]}
    assert again.hooks.get_best_epoch_and_accuracy(again.tester, "val") == (2, 0.7)


@pytest.mark.rule("H-10")
def test_the_references_of_a_split_are_found_in_the_record(tmp_path):
    run = Run(tmp_path)
    run.tester.accuracy_calculator.values = [0.5, 0.25]
    run.tester.test(both(), 1, torch.nn.Identity(), splits_to_eval=[("val", ["train"])])
    run.keeper.save_records()
    again = Run(tmp_path)
    assert again.history()[P1] == [0.5]
    run.tester.test(both(), 1, torch.nn.Identity(), splits_to_eval=[("val", ["train", "val"])])
    run.keeper.save_records()
    with pytest.raises(ValueError, match=r"several reference sets: ask for one of .*'val_vs_TRAIN_and_VAL'"):
        Run(tmp_path).history()
    hooks, tester = Run(tmp_path).hooks, Run(tmp_path).tester
    assert hooks.get_accuracy_history(tester, "val_vs_train")[P1] == [0.5]
    assert hooks.get_accuracy_history(tester, "val_vs_TRAIN_and_VAL")[P1] == [0.25]


@pytest.mark.rule("H-10")
def test_after_a_restart_a_split_against_itself_is_not_taken_for_another_reference_set(tmp_path):
    run = Run(tmp_path)
    run.tester.accuracy_calculator.values = [0.5, 0.25]
    run.tester.test(both(), 1, torch.nn.Identity(), splits_to_eval=[("val", ["train"]), ("val", ["val"])])
    run.keeper.save_records()
    assert run.hooks.get_accuracy_history(run.tester, "val")[P1] == [0.5]
    again = Run(tmp_path)
    with pytest.raises(ValueError, match="'val_vs_TRAIN', 'val_vs_val'"):
        again.history()
    assert again.hooks.get_accuracy_history(again.tester, "val_vs_val")[P1] == [0.25]
    assert again.hooks.get_accuracy_history(again.tester, "val_vs_train")[P1] == [0.5]


@pytest.mark.rule("H-8")
@pytest.mark.parametrize("names", [("val", "VAL"), ("a/b", "a_b")])
def test_splits_that_would_share_a_record_are_refused_before_the_training(tmp_path, names):
    run = Run(tmp_path)
    data = dict.fromkeys(names, both()["val"])
    run.hooks.validation_split_name = names[0]
    with pytest.raises(ValueError, match=f"splits '{names[0]}' and '{names[1]}' would have one record"):
        run.hooks.end_of_epoch_hook(run.tester, data, run.folder)
    run.tester.accuracy_calculator.values = [0.5, 0.25]
    with pytest.raises(ValueError, match="would have one record"):
        run.tester.test(data, 1, torch.nn.Identity())
    assert not run.keeper.record_writer.records


@pytest.mark.rule("H-7")
def test_results_are_recorded_whatever_a_subclass_makes_of_the_hook(tmp_path):
    class Silent(HookContainer):
        def end_of_testing_hook(self, tester):
            self.seen = list(tester.all_accuracies)

    run = Run(tmp_path, 0.5)
    hooks = Silent(run.keeper, primary_metric=run.hooks.primary_metric)
    run.tester.end_of_testing_hook = hooks.end_of_testing_hook
    assert hooks.run_tester_separately(run.tester, {"val": both()["val"]}, 1, torch.nn.Identity(), None)
    assert hooks.seen == ["val"]
    assert hooks.get_accuracy_history(run.tester, "val")[P1] == [0.5]


@pytest.mark.rule("H-12")
def test_losses_of_an_iteration_that_was_done_again_count_once(tmp_path):
    run = Run(tmp_path)
    for iterations, loss in ((range(1, 5), 0.5), (range(3, 6), 0.25)):
        for iteration in iterations:
            run.keeper.update_records({"total_loss": loss}, iteration, parent_name="loss_histories")
        run.keeper.save_records()
    found = run.hooks.get_loss_history()
    assert found == {"~iteration~": [1, 2, 3, 4, 5], "total_loss": [0.5, 0.5, 0.25, 0.25, 0.25]}
    with pytest.raises(ValueError, match=r"loss_names must be among the recorded .*'total_loss'.*'metric'"):
        run.hooks.get_loss_history(["metric"])


@pytest.mark.rule("H-10")
def test_an_epoch_that_is_evaluated_again_keeps_its_place_in_the_history(tmp_path):
    Run(tmp_path, 0.5, 0.7, 0.6).epochs(1, 2, 3)
    again = Run(tmp_path, 0.4)
    again.hooks.run_tester_separately(
        again.tester, {"val": both()["val"]}, 2, torch.nn.Identity(), None, skip_eval_if_already_done=False
    )
    assert again.history() == {"epoch": [1, 2, 3], P1: [0.5, 0.4, 0.6]}


@pytest.mark.rule("H-10")
def test_a_metric_that_is_not_recorded_is_named(tmp_path):
    run = Run(tmp_path, 0.5)
    run.epochs(1)
    with pytest.raises(KeyError, match=r"'NMI'.*precision_at_1_level0"):
        run.history(metrics=["NMI"])


@pytest.mark.rule("H-11", "X5")
@pytest.mark.parametrize(
    ("level", "pca", "key"),
    [
        (0, None, "precision_at_1_level0"),
        ("all", None, "precision_at_1_level0"),
        ("all", 1, "precision_at_1_level0_pca1"),
        ([0], None, "precision_at_1_level0"),
    ],
)
def test_the_primary_metric_is_its_average_or_its_level(tmp_path, level, pca, key):
    tester = make(GlobalEmbeddingSpaceTester, Scripted(0.5), label_hierarchy_level=level, pca=pca)
    run = Run(tmp_path, tester=tester)
    run.epochs(1)
    assert run.history() == {"epoch": [1], key: [0.5]}
    fresh = make(GlobalEmbeddingSpaceTester, Scripted(), label_hierarchy_level=level, pca=pca)
    assert Run(tmp_path, tester=fresh).history() == {"epoch": [1], key: [0.5]}


@pytest.mark.rule("H-11")
def test_with_several_levels_the_average_decides(tmp_path):
    class Levels(GlobalEmbeddingSpaceTester):
        def label_levels_to_evaluate(self, query_labels):
            return [0, 0]

    tester = make(Levels, Scripted(0.25, 0.75, 0.5, 0.75), label_hierarchy_level="all")
    run = Run(tmp_path, tester=tester)
    _, best = run.epochs(1, 2)
    assert [value for _, value in best] == [0.75, 0.75]
    assert "AVERAGE_precision_at_1" in run.history()


@pytest.mark.rule("H-13")
def test_the_untrained_model_is_recorded_and_never_the_best(tmp_path):
    run = Run(tmp_path, 0.9, 0.5, 0.6)
    answers, best = run.epochs(-1, 1, 2)
    assert answers == [True, True, True]
    assert best == [(None, 0), (1, 0.5), (2, 0.6)]
    assert run.history()["epoch"] == [-1, 1, 2]
    assert not any("best-1" in name for name in run.files())
    assert [name for name in run.files() if "best" in name] == [n for n in run.files() if "best2" in n]


@pytest.mark.rule("H-14")
def test_nan_is_the_best_only_while_there_is_nothing_else(tmp_path):
    nan = float("nan")
    run = Run(tmp_path, nan, nan, 0.2, nan, 0.1)
    run.epochs(1, 2)
    assert sum("trunk_best" in name for name in run.files()) == 1
    _, best = run.epochs(3, 4, 5)
    assert best == [(3, 0.2)] * 3
    assert [name for name in run.files() if "best" in name and "trunk_b" in name] == ["trunk_best3.pth"]
    history = run.history()[P1]
    assert [math.isnan(v) for v in history] == [True, True, False, True, False]
    assert math.isnan(run.history(return_all_metrics=True)["best_accuracy"][0])


@pytest.mark.rule("H-15")
@pytest.mark.parametrize(
    ("values", "best"), [((-0.5, -0.2, -0.7), (2, -0.2)), ((0.0, 0.0), (1, 0.0)), ((0.0, -1.0), (1, 0.0))]
)
def test_values_of_zero_and_below_can_be_the_best(tmp_path, values, best):
    run = Run(tmp_path, *values)
    assert run.epochs(*range(1, len(values) + 1))[1][-1] == best
    assert f"trunk_best{best[0]}.pth" in run.files()


@pytest.mark.rule("H-16")
def test_a_training_goes_on_from_the_latest_or_the_best_model(tmp_path):
    run = Run(tmp_path, 0.5, 0.7, 0.6)
    run.epochs(1, 2, 3)
    for best, epoch in ((False, 3), (True, 2)):
        again = Trainer()
        assert run.hooks.load_latest_saved_models(again, run.folder, best=best) == epoch + 1
        assert again.weights() == {epoch}


@pytest.mark.rule("H-16")
def test_files_that_are_not_of_the_wanted_kind_are_not_loaded(tmp_path):
    run = Run(tmp_path, 0.5)
    load = run.hooks.load_latest_saved_models
    assert load(Trainer(), tmp_path / "nowhere") == 1
    assert load(Trainer(), run.folder) == 1
    things = checkpoints.stateful(run.trainer)
    checkpoints.save(things, run.folder, "best2")
    assert load(Trainer(), run.folder) == 1
    checkpoints.delete(things, run.folder, "best2")
    checkpoints.save(things, run.folder, "-1")
    assert load(Trainer(), run.folder) == 1
    assert load(Trainer(), run.folder, best=True) == 1


@pytest.mark.rule("H-16")
def test_a_set_of_files_that_is_not_whole_is_passed_over(tmp_path):
    run = Run(tmp_path)
    for epoch in (3, 4):
        run.trainer.become(epoch)
        checkpoints.save(checkpoints.stateful(run.trainer), run.folder, str(epoch))
    (run.folder / "embedder_4.pth").unlink()
    again = Trainer()
    assert run.hooks.load_latest_saved_models(again, run.folder) == 4
    assert again.weights() == {3}
    (run.folder / "metric_loss_3.pth").unlink()
    untouched = Trainer()
    before = untouched.weights()
    with pytest.raises(FileNotFoundError, match=r"epoch 4 must be whole, missing are .*embedder_4\.pth"):
        run.hooks.load_latest_saved_models(untouched, run.folder)
    assert untouched.weights() == before


@pytest.mark.rule("H-17")
def test_a_history_goes_on_across_processes(tmp_path):
    Run(tmp_path, 0.5, 0.7, 0.6).epochs(1, 2, 3)
    again = Run(tmp_path, 0.3, patience=1)
    answers, best = again.epochs(4)
    assert best == [(2, 0.7)]
    assert answers == [False]
    assert again.history()["epoch"] == [1, 2, 3, 4]
    assert [name for name in again.files() if name.startswith("trunk_b")] == ["trunk_best2.pth"]


@pytest.mark.rule("H-17")
def test_an_epoch_that_is_evaluated_again_takes_the_place_of_its_first_evaluation(tmp_path):
    Run(tmp_path, 0.5, 0.9).epochs(1, 2)
    again = Run(tmp_path, 0.6, 0.4)
    _, best = again.epochs(2, 3)
    assert best == [(2, 0.6), (2, 0.6)]
    assert again.history() == {"epoch": [1, 2, 3], P1: [0.5, 0.6, 0.4]}


@pytest.mark.rule("H-17", "H-14")
def test_a_best_model_that_a_crash_left_as_the_latest_only_is_made_good(tmp_path):
    run = Run(tmp_path, 0.5, 0.7)
    run.epochs(1, 2)
    things = checkpoints.stateful(run.trainer)
    # As if the process had died after saving the latest model of epoch 2.
    checkpoints.delete(things, run.folder, "best2")
    again = Run(tmp_path, 0.6)
    again.epochs(3)
    assert set(again.files()) == {f"{key}_{suffix}.pth" for key in things for suffix in ("3", "best2")}
    loaded = Trainer()
    assert again.hooks.load_latest_saved_models(loaded, again.folder, best=True) == 3
    assert loaded.weights() == {2}


@pytest.mark.rule("H-18")
def test_a_tester_can_run_apart_from_training_and_only_once(tmp_path):
    run = Run(tmp_path, 0.5, 0.25, 0.75, 0.5)
    model = torch.nn.Identity()

    def separately(epoch, **options):
        return run.hooks.run_tester_separately(run.tester, both(), epoch, model, None, **options)

    assert separately(1)
    assert not separately(1)
    assert separately(2, splits_to_eval=["val"])
    assert not separately(2, splits_to_eval=[("val", ["val"])])
    assert separately(2, splits_to_eval=[("val", ["train"]), ("val", ["val"])])
    run.tester.accuracy_calculator.values = [0.1, 0.2]
    assert separately(1, skip_eval_if_already_done=False)
    again = Run(tmp_path)
    assert not again.hooks.run_tester_separately(again.tester, both(), 1, model, None)


@pytest.mark.rule("H-19")
def test_a_trainer_without_an_embedder_or_lists_will_do(tmp_path):
    run = Run(tmp_path, 0.5)
    del run.trainer.models["embedder"]
    run.trainer.mining_funcs = None
    run.trainer.lr_schedulers = None
    run.trainer.models["trunk"] = torch.nn.Linear(2, 2)
    run.trainer.epoch = 1
    run.hooks.end_of_iteration_hook(run.trainer)
    assert run.hook(run.trainer) is True


@pytest.mark.rule("H-20", "H-19")
def test_a_validation_split_that_is_not_evaluated_is_refused(tmp_path):
    hooks = HookContainer(get_record_keeper(tmp_path)[0], primary_metric="precision_at_1")
    tester = make(GlobalEmbeddingSpaceTester, Scripted())
    datasets = {"train": None, "test": None}
    with pytest.raises(ValueError, match=r"one of \['train', 'test'\].*got 'val'"):
        hooks.end_of_epoch_hook(tester, datasets, tmp_path)
    with pytest.raises(ValueError, match=r"one of \['train'\].*got 'val'"):
        hooks.end_of_epoch_hook(tester, both(), tmp_path, splits_to_eval=[("train", ["val"])])
    hooks.validation_split_name = "train_vs_val"
    hooks.end_of_epoch_hook(tester, both(), tmp_path, splits_to_eval=[("train", ["train"]), ("train", ["val"])])


@pytest.mark.rule("H-20")
def test_a_tester_without_a_hook_is_recorded_all_the_same(tmp_path):
    run = Run(tmp_path, 0.5, 0.4, patience=0)
    run.tester.end_of_testing_hook = None
    assert run.epochs(1, 2) == ([True, False], [(1, 0.5), (1, 0.5)])


def test_a_metric_with_a_value_for_each_class_cannot_decide(tmp_path):
    run = Run(tmp_path, [0.5, 0.25])
    with pytest.raises(ValueError, match="one number"):
        run.epochs(1)


@pytest.mark.rule("H-0")
def test_without_a_record_keeper_the_hooks_are_empty(caplog):
    hooks = get_hook_container(None)
    assert hooks.end_of_iteration_hook is None
    assert hooks.end_of_testing_hook is None
    assert hooks.end_of_epoch_hook(object(), {}, "folder", test_interval=2, patience=3) is None
    assert "no record_keeper" in caplog.text


def score(epoch):
    return (epoch * 37 % 19) / 19


def train_until_killed(folder):
    """Go on with the training in a folder, for ever."""
    torch.set_num_threads(1)
    run = Run(folder)
    start = run.hooks.load_latest_saved_models(run.trainer, run.folder)
    for epoch in range(start, 10_000):
        run.tester.accuracy_calculator.values = [score(epoch)]
        run.epochs(epoch)


@pytest.mark.rule("H-14", "H-16", "H-17")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_process_leaves_whole_models_and_a_consistent_history(tmp_path):
    generator = random.Random(7)
    folder = Run(tmp_path).folder
    reached = []
    for attempt in range(25):
        folder.mkdir(exist_ok=True)
        before = set(folder.iterdir())
        child = os.fork()
        if child == 0:
            try:
                train_until_killed(tmp_path)
            finally:
                os._exit(1)
        # Half of them die early, half after an epoch at least, however busy the machine is.
        deadline = time.monotonic() + 60
        while attempt % 2 and set(folder.iterdir()) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(generator.uniform(0.02, 0.25))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

        run = Run(tmp_path)
        history = run.history(return_all_metrics=True)
        epochs = history.get("epoch", [])
        assert epochs == list(range(1, len(epochs) + 1))
        assert history.get(P1, []) == [score(epoch) for epoch in epochs]
        with sqlite3.connect(tmp_path / "records" / "logs.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for path in (tmp_path / "records").glob("*.csv"):
            with path.open() as file:
                rows = [row for row in csv.reader(file) if row[0] != "~iteration~"]
            assert [int(row[0]) for row in rows] == [
                row["epoch"] for row in run.keeper.query(f"SELECT epoch FROM {path.stem} ORDER BY id")
            ]
        for best in (False, True):
            trainer = Trainer()
            trainer.become(0)
            following = run.hooks.load_latest_saved_models(trainer, run.folder, best=best)
            assert trainer.weights() == {following - 1}
            assert following - 1 <= len(epochs)
        reached.append(len(epochs))
    assert reached[-1] > 10
    # One whole epoch more, and the record and the models agree.
    epoch = run.hooks.load_latest_saved_models(run.trainer, run.folder)
    run.tester.accuracy_calculator.values = [score(epoch)]
    run.epochs(epoch)
    best, _ = run.hooks.get_best_epoch_and_accuracy(run.tester, "val")
    assert score(best) == max(score(e) for e in range(1, epoch + 1))
    assert [n for n in run.files() if n.startswith("trunk_best")] == [f"trunk_best{best}.pth"]
    assert not any(name.endswith(".tmp") for name in os.listdir(run.folder))
