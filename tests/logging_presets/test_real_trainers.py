"""pytorch-metric-learning's trainers, testers and hooks with ours, on scikit-learn's digits."""

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses, miners, samplers, trainers
from pytorch_metric_learning import testers as their_testers
from pytorch_metric_learning.utils import logging_presets as theirs
from sklearn.datasets import load_digits
from torch.utils.data import Dataset, TensorDataset

from logging_presets.training import Run, make
from nearwise.evaluation import AccuracyCalculator
from nearwise.logging_presets import get_hook_container, get_record_keeper
from nearwise.testers import (
    GlobalEmbeddingSpaceTester,
    GlobalTwoStreamEmbeddingSpaceTester,
    WithSameParentLabelTester,
)

MAP = "mean_average_precision_at_r_level0"


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images[:600] / 16, dtype=torch.float32), torch.tensor(labels[:600])
    return {"train": TensorDataset(x[:400], y[:400]), "val": TensorDataset(x[400:], y[400:])}


class TwoStreams(Dataset):
    """An anchor, another sample of its label, and the label."""

    def __init__(self, dataset):
        self.x, self.y = dataset.tensors
        self.others = {int(label): torch.nonzero(self.y == label)[:, 0] for label in self.y.unique()}

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        same = self.others[int(self.y[i])]
        return self.x[i], self.x[same[(i * 7) % len(same)]], self.y[i]


def parts():
    torch.manual_seed(0)
    models = {
        "trunk": torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()),
        "embedder": torch.nn.Linear(32, 8),
    }
    optimizers = {f"{key}_optimizer": torch.optim.Adam(model.parameters(), 0.01) for key, model in models.items()}
    return models, optimizers


def calculator():
    return AccuracyCalculator(include=("mean_average_precision_at_r", "precision_at_1"), k="max_bin_count")


def train(trainer, dataset, hooks, hook, *, epochs=4, start=1, loss=None, mining=None, objects=None):
    models, optimizers = objects or parts()
    built = trainer(
        models=models,
        optimizers=optimizers,
        batch_size=50,
        loss_funcs={"metric_loss": loss or losses.TripletMarginLoss(margin=0.1)},
        mining_funcs=mining or {},
        dataset=dataset,
        dataloader_num_workers=0,
        data_device="cpu",
        end_of_iteration_hook=hooks.end_of_iteration_hook,
        end_of_epoch_hook=hook,
    )
    if start:
        built.train(start_epoch=start, num_epochs=epochs)
    return built


@pytest.mark.rule("H-19", "T-0", "X10")
def test_metric_loss_only_trains_with_our_tester_and_hooks(digits, tmp_path):
    keeper, _, _ = get_record_keeper(tmp_path / "csv", tmp_path / "tb")
    hooks = get_hook_container(keeper, log_freq=2)
    tester = make(GlobalEmbeddingSpaceTester, calculator(), end_of_testing_hook=hooks.end_of_testing_hook)
    hook = hooks.end_of_epoch_hook(tester, digits, tmp_path / "models", patience=3)
    trained = train(
        trainers.MetricLossOnly,
        digits["train"],
        hooks,
        hook,
        mining={"tuple_miner": miners.MultiSimilarityMiner()},
    )
    history = hooks.get_accuracy_history(tester, "val", metrics=["mean_average_precision_at_r", "precision_at_1"])
    assert history["epoch"] == [1, 2, 3, 4]
    assert history[MAP][-1] > 0.5
    assert history["precision_at_1_level0"][-1] > 0.85
    assert len(hooks.get_loss_history()["total_loss"]) == 16
    best, value = hooks.get_best_epoch_and_accuracy(tester, "val")
    assert (best, value) == (int(np.argmax(history[MAP])) + 1, max(history[MAP]))

    # The best model gives its number again, in a trainer that starts anew.
    fresh = train(trainers.MetricLossOnly, digits["train"], hooks, hook, start=None)
    assert hooks.load_latest_saved_models(fresh, tmp_path / "models", "cpu", best=True) == best + 1
    tester.end_of_testing_hook = None
    again = tester.test(digits, 0, fresh.models["trunk"], fresh.models["embedder"])
    assert again["val"][MAP] == value
    # And the training goes on after its last epoch.
    assert hooks.load_latest_saved_models(fresh, tmp_path / "models", "cpu") == 5
    fresh.train(start_epoch=5, num_epochs=5)
    assert hooks.get_accuracy_history(tester, "val")["epoch"] == [1, 2, 3, 4, 5]
    assert trained.epoch == 4


@pytest.mark.rule("W-1", "H-19")
def test_two_stream_loss_trains_with_our_tester_and_hooks(digits, tmp_path):
    streams = {name: TwoStreams(dataset) for name, dataset in digits.items()}
    hooks = get_hook_container(get_record_keeper(tmp_path / "csv")[0], primary_metric="precision_at_1")
    tester = make(GlobalTwoStreamEmbeddingSpaceTester, calculator(), end_of_testing_hook=hooks.end_of_testing_hook)
    hook = hooks.end_of_epoch_hook(tester, streams, tmp_path / "models")
    train(trainers.TwoStreamMetricLoss, streams["train"], hooks, hook, epochs=3)
    history = hooks.get_accuracy_history(tester, "val")
    assert history["epoch"] == [1, 2, 3]
    assert history["precision_at_1_level0"][-1] > 0.8


def their_container(keeper, **options):
    return theirs.HookContainer(keeper, **options)


@pytest.mark.rule("H-0", "X5")
@pytest.mark.parametrize("pca", [None, 4])
def test_their_hooks_drive_our_tester(digits, tmp_path, pca):
    keeper, _, _ = get_record_keeper(tmp_path / "csv", tmp_path / "tb")
    hooks = theirs.get_hook_container(keeper, log_freq=4)
    tester = make(GlobalEmbeddingSpaceTester, calculator(), end_of_testing_hook=hooks.end_of_testing_hook, pca=pca)
    hook = hooks.end_of_epoch_hook(tester, digits, str(tmp_path / "models"))
    train(trainers.MetricLossOnly, digits["train"], hooks, hook, epochs=2)
    key = MAP + (f"_pca{pca}" if pca else "")
    history = hooks.get_accuracy_history(tester, "val")
    assert history["epoch"] == [1, 2]
    assert history[key][-1] > 0.4
    ours = get_hook_container(keeper)
    assert ours.get_accuracy_history(tester, "val") == history
    assert ours.get_best_epoch_and_accuracy(tester, "val") == hooks.get_best_epoch_and_accuracy(tester, "val")
    assert hooks.get_loss_history().keys() == {"~iteration~", "metric_loss", "total_loss"}


@pytest.mark.rule("H-0", "P-1")
def test_our_hooks_drive_their_testers(digits, tmp_path):
    pytest.importorskip("faiss")
    hooks = get_hook_container(get_record_keeper(tmp_path / "csv")[0], primary_metric="precision_at_1")
    tester = their_testers.GlobalEmbeddingSpaceTester(
        accuracy_calculator=calculator(),
        end_of_testing_hook=hooks.end_of_testing_hook,
        dataloader_num_workers=0,
        data_device="cpu",
    )
    splits = [("val", ["train"])]
    hook = hooks.end_of_epoch_hook(tester, digits, tmp_path / "models", splits_to_eval=splits, patience=1)
    built = train(trainers.MetricLossOnly, digits["train"], hooks, hook, epochs=2)
    theirs_found = hooks.get_accuracy_history(tester, "val", return_all_metrics=True)
    assert theirs_found["epoch"] == [1, 2]
    # Our tester finds the same for the same model.
    ours = make(GlobalEmbeddingSpaceTester, calculator())
    found = ours.test(digits, 2, built.models["trunk"], built.models["embedder"], splits_to_eval=splits)["val"]
    assert found == {name: theirs_found[name][-1] for name in found}


@pytest.mark.rule("P-1", "T-15")
def test_our_hierarchical_tester_finds_what_theirs_does(digits):
    pytest.importorskip("faiss")
    x, y = digits["val"].tensors
    data = {"val": TensorDataset(x, torch.stack([y, y % 3, y % 2], dim=1))}
    options = {"dataloader_num_workers": 0, "data_device": "cpu", "label_hierarchy_level": "all"}
    for kind in ("GlobalEmbeddingSpaceTester", "WithSameParentLabelTester"):
        theirs_found = getattr(their_testers, kind)(accuracy_calculator=calculator(), **options)
        ours = {"GlobalEmbeddingSpaceTester": GlobalEmbeddingSpaceTester}.get(kind, WithSameParentLabelTester)
        expected = theirs_found.test(data, 1, torch.nn.Identity())["val"]
        found = ours(accuracy_calculator=calculator(), **options).test(data, 1, torch.nn.Identity())["val"]
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.rule("H-9", "H-17")
def test_a_training_begun_with_record_keeper_goes_on_with_ours(tmp_path):
    pytest.importorskip("record_keeper")
    first = Run(tmp_path, 0.5, 0.7, keeper=theirs.get_record_keeper(str(tmp_path / "records"))[0])
    assert first.epochs(1, 2)[1] == [(1, 0.5), (2, 0.7)]
    second = Run(tmp_path, 0.6)
    assert second.epochs(3)[1] == [(2, 0.7)]
    third = Run(tmp_path, 0.9, keeper=theirs.get_record_keeper(str(tmp_path / "records"))[0], container=their_container)
    assert third.epochs(4)[1] == [(4, 0.9)]
    assert third.history()["epoch"] == [1, 2, 3, 4]


@pytest.mark.rule("T-0")
def test_a_sampler_and_a_collate_function_reach_trainer_and_tester(digits, tmp_path):
    seen = []

    def collate(samples):
        seen.append(len(samples))
        return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])

    hooks = get_hook_container(get_record_keeper(tmp_path / "csv")[0])
    tester = make(GlobalEmbeddingSpaceTester, calculator(), batch_size=64)
    hook = hooks.end_of_epoch_hook(tester, digits, tmp_path / "models", test_collate_fn=collate)
    models, optimizers = parts()
    trainer = trainers.MetricLossOnly(
        models,
        optimizers,
        20,
        {"metric_loss": losses.ContrastiveLoss()},
        digits["train"],
        sampler=samplers.MPerClassSampler(digits["train"].tensors[1], 2, 20, length_before_new_iter=200),
        dataloader_num_workers=0,
        data_device="cpu",
        end_of_iteration_hook=hooks.end_of_iteration_hook,
        end_of_epoch_hook=hook,
    )
    trainer.train(num_epochs=1)
    # 400 and 200 samples in batches of 64.
    assert seen == [64] * 6 + [16] + [64] * 3 + [8]
