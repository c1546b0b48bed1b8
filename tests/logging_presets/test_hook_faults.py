"""Faults and wants around the hooks of a training that users of pytorch-metric-learning reported."""

import csv
import sys

import pytest
import torch
from torch.utils.data import TensorDataset

import nearwise
from logging_presets.training import P1, Run, Scripted, Trainer, both, make
from nearwise.evaluation import AccuracyCalculator
from nearwise.logging_presets import get_hook_container, get_record_keeper
from nearwise.testers import GlobalEmbeddingSpaceTester


def real_tester():
    return make(GlobalEmbeddingSpaceTester, AccuracyCalculator(include=("precision_at_1",)))


class Training(Trainer):
    """Models that behave otherwise while they are trained, with other weights after each epoch."""

    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
        self.models = {"trunk": torch.nn.Sequential(*layers), "embedder": torch.nn.Linear(4, 2)}
        self.optimizers = {}

    def train(self, epoch, rows):
        self.epoch = epoch
        torch.manual_seed(epoch)
        with torch.no_grad():
            for model in self.models.values():
                model.train()
                for parameter in model.parameters():
                    parameter.normal_()
            for _ in range(5):
                self.models["trunk"](rows)


@pytest.mark.rule("H-6", "H-16")
def test_a_reloaded_best_model_scores_what_was_recorded_of_it(tmp_path):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/334: 90 % in the log, 33 % after reloading."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % 4
    rows = torch.eye(6)[labels] + 0.7 * torch.randn(80, 6, generator=generator)
    run = Run(tmp_path, tester=real_tester())
    run.datasets["val"] = TensorDataset(rows, labels)
    trainer = Training()
    for epoch in range(1, 6):
        trainer.train(epoch, rows)
        run.hook(trainer)
    best_epoch, best = run.hooks.get_best_epoch_and_accuracy(run.tester, "val")
    assert len(set(run.history()[P1])) > 2
    again = Training()
    assert run.hooks.load_latest_saved_models(again, run.folder, best=True) == best_epoch + 1
    found = real_tester().test({"val": run.datasets["val"]}, 0, again.models["trunk"], again.models["embedder"])
    assert found["val"][P1] == best
    # And by hand, with a search of one's own.
    with torch.no_grad():
        embeddings = again.models["embedder"].eval()(again.models["trunk"].eval()(rows))
    embeddings = torch.nn.functional.normalize(embeddings)
    nearest = nearwise.knn(embeddings, embeddings, 1, ref_includes_query=True).indices[:, 0]
    assert (labels[nearest] == labels).double().mean().item() == pytest.approx(best, abs=1e-15)


def iterations(folder):
    with (folder / "records" / "loss_histories.csv").open() as file:
        return [int(row["~iteration~"]) for row in csv.DictReader(file)]


@pytest.mark.rule("H-16", "H-17", "H-1")
def test_a_training_that_is_taken_up_again_goes_on_with_its_logs(tmp_path):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/340: logs began again with epoch 1."""
    values = {1: 0.5, 2: 0.7, 3: 0.6, 4: 0.65, 5: 0.8}
    for last in (3, 5):
        run = Run(tmp_path, log_freq=5)
        start = run.hooks.load_latest_saved_models(run.trainer, run.folder)
        assert start == (1 if last == 3 else 4)
        run.tester.accuracy_calculator.values = [values[epoch] for epoch in range(start, last + 1)]
        for epoch in range(start, last + 1):
            run.trainer.become(epoch)
            for iteration in range(1, 11):
                run.trainer.iteration = iteration
                run.hooks.end_of_iteration_hook(run.trainer)
            run.hook(run.trainer)
            if epoch == 4:
                assert run.hooks.get_best_epoch_and_accuracy(run.tester, "val") == (2, 0.7)
    assert run.history() == {"epoch": list(values), P1: list(values.values())}
    assert iterations(tmp_path) == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    assert [name for name in run.files() if name.startswith("trunk_")] == [
        "trunk_5.pth",
        "trunk_best5.pth",
        "trunk_optimizer_5.pth",
        "trunk_optimizer_best5.pth",
    ]


@pytest.mark.rule("T-0", "H-2")
def test_the_hook_hands_the_collate_function_to_the_tester(tmp_path):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/289: the training had one, the tester not."""
    seen = []

    def collate(samples):
        seen.append(len(samples))
        return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])

    run = Run(tmp_path, tester=real_tester(), test_collate_fn=collate)
    run.epochs(1)
    assert sum(seen) == 8
    assert run.hooks.run_tester_separately(run.tester, both(), 2, torch.nn.Identity(), None, collate_fn=collate)
    assert sum(seen) == 24


@pytest.mark.rule("H-0")
def test_records_need_no_record_keeper(tmp_path, monkeypatch):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/2: hooks without a package of their own."""
    for name in ("record_keeper", "tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    run = Run(tmp_path, 0.5, 0.75)
    assert run.epochs(1, 2)[1] == [(1, 0.5), (2, 0.75)]


@pytest.mark.rule("H-0", "T-18")
def test_without_records_a_tester_and_a_trainer_run_all_the_same(tmp_path, monkeypatch, caplog):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/3: what records need must stay optional."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    keeper, writer, tensorboard = get_record_keeper(tmp_path / "csv", tmp_path / "tensorboard")
    assert (keeper, writer, tensorboard) == (None, None, None)
    hooks = get_hook_container(keeper, primary_metric="precision_at_1", save_models=True)
    assert type(hooks).__name__ == "EmptyContainer"
    tester = make(GlobalEmbeddingSpaceTester, Scripted(0.5, 0.75), end_of_testing_hook=hooks.end_of_testing_hook)
    hook = hooks.end_of_epoch_hook(tester, both(), tmp_path / "models", test_interval=1, patience=2)
    assert (hooks.end_of_iteration_hook, hooks.end_of_testing_hook, hook) == (None, None, None)
    caplog.clear()
    with caplog.at_level("INFO", logger="nearwise"):
        found = tester.test(both(), 1, torch.nn.Identity())
    assert {name: result[P1] for name, result in found.items()} == {"train": 0.5, "val": 0.75}
    assert P1 in caplog.text
    assert not (tmp_path / "models").exists()


@pytest.mark.rule("H-16", "H-17", "H-6")
def test_a_training_that_turned_back_goes_on_from_where_it_is(tmp_path):
    Run(tmp_path, 0.5, 0.7, 0.6, 0.5, 0.4).epochs(1, 2, 3, 4, 5)
    run = Run(tmp_path, 0.8, 0.6)
    assert run.hooks.load_latest_saved_models(Trainer(), run.folder, best=True) == 3
    run.epochs(3, 4)
    again = Trainer()
    assert run.hooks.load_latest_saved_models(again, run.folder) == 5
    assert again.weights() == {4}
    assert {name for name in run.files() if name.startswith("trunk_") and "optimizer" not in name} == {
        "trunk_4.pth",
        "trunk_best3.pth",
    }


@pytest.mark.rule("H-6", "H-13")
def test_files_of_the_untrained_model_and_of_another_interval_do_not_stay(tmp_path):
    run = Run(tmp_path, 0.1, 0.2, 0.3)
    run.epochs(-1, 4, 9)
    assert {name for name in run.files() if "optimizer" not in name and name.startswith("trunk")} == {
        "trunk_9.pth",
        "trunk_best9.pth",
    }


@pytest.mark.rule("H-3", "H-20")
def test_a_hook_of_the_users_own_leaves_stopping_and_best_models_alone(tmp_path):
    called = []
    run = Run(tmp_path, 0.9, 0.5, 0.4, 0.3, patience=1)
    run.tester.end_of_testing_hook = called.append
    answers, best = run.epochs(1, 2, 3, 4)
    assert answers == [True, True, False, False]
    assert best[-1] == (1, 0.9)
    assert len(called) == 4
    assert run.history()["epoch"] == [1, 2, 3, 4]


@pytest.mark.rule("H-19")
def test_miners_may_be_missing_from_the_trainer(tmp_path):
    run = Run(tmp_path, 0.5)
    del run.trainer.mining_funcs
    run.hooks.end_of_iteration_hook(run.trainer)
    run.epochs(1)


@pytest.mark.rule("G-6", "H-2")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"test_interval": 0}, ValueError),
        ({"test_interval": 1.5}, TypeError),
        ({"patience": -1}, ValueError),
        ({"patience": "1"}, TypeError),
    ],
)
def test_intervals_and_patience_are_checked_at_once(arguments, error, tmp_path):
    run = Run(tmp_path)
    with pytest.raises(error, match=next(iter(arguments))):
        run.hooks.end_of_epoch_hook(run.tester, run.datasets, run.folder, **arguments)
    with pytest.raises(ValueError, match="log_freq must be a positive integer, got 0"):
        get_hook_container(run.hooks.record_keeper, log_freq=0)
