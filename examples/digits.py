"""Train an embedding of handwritten digits, choose a verification threshold, and measure it on unseen samples.

A small network is trained with a triplet loss and stopped when MAP@R on the validation split no longer rises; the best
model is loaded back. Pairs of validation samples give the distance at which two images are said to show the same digit,
pairs of test samples the accuracy of that. Two figures show the embedding and the history of the training.

    python examples/digits.py --out digits-out

needs ``nearwise[testers,logging,plot]`` and scikit-learn (for the data) and takes well under a minute on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nearwise.distances import LpDistance
from nearwise.evaluation import AccuracyCalculator, MatchFinder, match_accuracy, select_threshold
from nearwise.logging_presets import get_hook_container, get_record_keeper
from nearwise.testers import GlobalEmbeddingSpaceTester

METRICS = ("mean_average_precision_at_r", "precision_at_1")
NAMES = ("MAP@R", "precision at 1")
DISTANCE = LpDistance(normalize_embeddings=False)


def splits(seed: int) -> dict[str, TensorDataset]:
    """Half of the 1,797 images to train with, a quarter each to validate and to test."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    x, y = torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]
    half, quarter = len(x) // 2, len(x) // 4
    cuts = {"train": slice(0, half), "val": slice(half, half + quarter), "test": slice(half + quarter, None)}
    return {name: TensorDataset(x[cut], y[cut]) for name, cut in cuts.items()}


def triplet_loss(embeddings: Tensor, labels: Tensor, margin: float = 0.2) -> Tensor:
    """Each sample's farthest of its digit should be nearer than its nearest of another, by a margin."""
    distances = torch.cdist(embeddings, embeddings)
    same = labels[:, None] == labels[None]
    farthest = distances.masked_fill(~same, 0).amax(dim=1)
    nearest = distances.masked_fill(same, torch.inf).amin(dim=1)
    return (farthest - nearest + margin).clamp(min=0).mean()


class Trainer:
    """A training loop with the attributes that the hooks look for."""

    def __init__(self, dataset: TensorDataset, seed: int) -> None:
        torch.manual_seed(seed)
        self.loader = DataLoader(dataset, batch_size=100, shuffle=True, drop_last=True)
        self.models = {
            "trunk": nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()),
            "embedder": nn.Linear(64, 16),
        }
        parameters = [p for model in self.models.values() for p in model.parameters()]
        self.optimizers = {"trunk_optimizer": torch.optim.Adam(parameters, lr=0.001)}
        self.lr_schedulers: dict = {}
        self.loss_funcs: dict = {}
        self.mining_funcs: dict = {}
        self.loss_tracker = SimpleNamespace(losses={"total_loss": 0.0}, loss_weights={"total_loss": 1})
        self.epoch = self.iteration = 0

    def get_global_iteration(self) -> int:
        return self.iteration + len(self.loader) * (self.epoch - 1)

    def step_lr_plateau_schedulers(self, value: float) -> None:
        """There are none."""

    def train(self, epochs: range, end_of_iteration, end_of_epoch) -> None:
        (optimizer,) = self.optimizers.values()
        for epoch in epochs:
            self.epoch = epoch
            for model in self.models.values():
                model.train()
            for iteration, (x, y) in enumerate(self.loader):
                self.iteration = iteration
                embeddings = nn.functional.normalize(self.models["embedder"](self.models["trunk"](x)))
                loss = triplet_loss(embeddings, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.loss_tracker.losses["total_loss"] = loss.item()
                end_of_iteration(self)
            if end_of_epoch(self) is False:
                break


def pairs(embeddings: Tensor, labels: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every pair of one digit and as many pairs of different digits: first rows, second rows, whether the same."""
    first, second = torch.triu_indices(len(labels), len(labels), offset=1)
    same = labels[first] == labels[second]
    different = torch.nonzero(~same)[:, 0]
    drawn = torch.randperm(len(different), generator=torch.Generator().manual_seed(seed))[: int(same.sum())]
    chosen = torch.cat([torch.nonzero(same)[:, 0], different[drawn]])
    return embeddings[first[chosen]], embeddings[second[chosen]], same[chosen]


def draw_history(path: Path, history: dict, losses: dict, best: int) -> None:
    """Draw the validation metrics by epoch and the loss by step."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, metric in zip(NAMES, METRICS, strict=True):
        left.plot(history["epoch"], history[f"{metric}_level0"], marker="o", markersize=3, label=name)
    left.axvline(best, color="grey", linestyle=":", label=f"best model, epoch {best}")
    left.set(title="Validation split", xlabel="epoch", ylabel="score")
    left.legend(loc="lower right")
    right.plot(losses["~iteration~"], losses["total_loss"], color="tab:red", linewidth=1)
    right.set(title="Training", xlabel="step", ylabel="triplet loss")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_embedding(path: Path, points: Tensor, labels: Tensor) -> None:
    """Draw the test samples on the two principal axes of their embedding."""
    figure, axes = plt.subplots(figsize=(6, 5.4), layout="constrained")
    for digit in labels.unique().tolist():
        chosen = labels == digit
        axes.scatter(*points[chosen].T, s=12, color=plt.cm.tab10(digit), label=str(digit))
    axes.set(title="Test split, principal axes of the embedding", xlabel="first axis", ylabel="second axis")
    axes.set_aspect("equal")
    axes.legend(title="digit", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)
    plt.close(figure)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=Path("digits-out"), help="folder for models, records and figures")
    parser.add_argument("--epochs", type=positive, default=60, help="train at most so many epochs")
    parser.add_argument("--patience", type=int, default=8, help="stop when the best epoch lies further back")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    data = splits(options.seed)

    record_keeper, _, _ = get_record_keeper(options.out / "records")
    hooks = get_hook_container(record_keeper, log_freq=2)
    tester = GlobalEmbeddingSpaceTester(
        accuracy_calculator=AccuracyCalculator(include=METRICS),
        end_of_testing_hook=hooks.end_of_testing_hook,
        batch_size=256,
        dataloader_num_workers=0,
        data_device="cpu",
    )
    trainer = Trainer(data["train"], options.seed)
    after_epoch = hooks.end_of_epoch_hook(
        tester, {"val": data["val"]}, options.out / "models", patience=options.patience
    )
    # A folder with records in it is one to go on with.
    start = hooks.load_latest_saved_models(trainer, options.out / "models", "cpu")
    trainer.train(range(start, options.epochs + 1), hooks.end_of_iteration_hook, after_epoch)

    best = hooks.load_latest_saved_models(trainer, options.out / "models", "cpu", best=True) - 1
    embedded = {
        name: tester.get_all_embeddings(data[name], trainer.models["trunk"], trainer.models["embedder"])
        for name in ("val", "test")
    }
    first, second, same = pairs(embedded["val"][0], embedded["val"][1][:, 0], options.seed)
    selection = select_threshold(
        DISTANCE.pairwise(first, second), same, match_accuracy, is_inverted=DISTANCE.is_inverted
    )
    first, second, same = pairs(embedded["test"][0], embedded["test"][1][:, 0], options.seed)
    matches = MatchFinder(DISTANCE, threshold=selection.threshold).is_match(first, second)
    result = {
        "epochs": max(trainer.epoch, start - 1),
        "best_epoch": best,
        "validation_map_at_r": hooks.get_best_epoch_and_accuracy(tester, "val")[1],
        "threshold": selection.threshold,
        "validation_accuracy": selection.value,
        "test_pairs": len(same),
        "test_accuracy": (matches == same).double().mean().item(),
    }

    history = hooks.get_accuracy_history(tester, "val", metrics=METRICS)
    draw_history(options.out / "history.png", history, hooks.get_loss_history(), best)
    flat = GlobalEmbeddingSpaceTester(pca=2, normalize_embeddings=False, dataloader_num_workers=0, data_device="cpu")
    points, labels = flat.get_all_embeddings(data["test"], trainer.models["trunk"], trainer.models["embedder"])
    draw_embedding(options.out / "embedding.png", points, labels[:, 0])
    for name, value in result.items():
        print(
            f"{name.replace('_', ' '):22}{value:.4f}"
            if isinstance(value, float)
            else f"{name.replace('_', ' '):22}{value}"
        )
    print(f"figures in {options.out}")
    return result


if __name__ == "__main__":
    main()
