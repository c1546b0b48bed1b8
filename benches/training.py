"""Rows of the table about training: a metric with a memory (M1) and a tester (M2)."""

import time
from typing import Any

import torch
from torch.utils.data import TensorDataset

from nearwise.evaluation import AccuracyCalculator
from nearwise.metrics import ClosestIsPositiveAccuracy
from nearwise.metrics.nearest import nearest_other
from nearwise.testers import GlobalEmbeddingSpaceTester
from rounds import Row, Target, Work

MUST_M1 = {"VNNI": 5.0, "AVX2": 5.0}
MUST_M2 = {"VNNI": 2.0, "AVX2": 2.0}


def rows() -> list[Row]:
    """Every row, with what must be reached."""
    return [
        Row("M1", "ClosestIsPositiveAccuracy, a batch of 256 with a memory of 16,384 x 512", _memory),
        Row("M2", "GlobalEmbeddingSpaceTester, 20,000 x 128, identity model", _tester),
    ]


def _memory(threads: int, quick: bool) -> Work:
    torch.set_num_threads(threads)
    size, features, classes = (2_048 if quick else 16_384), 512, 1_000
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, features, generator=generator)

    def batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(0, classes, (rows,), generator=generator)
        return centres[labels] + torch.randn(rows, features, generator=generator), labels

    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=size)
    metric.update(*batch(size))

    def update() -> float:
        rows = batch(256)
        start = time.perf_counter()
        metric.update(*rows)
        return time.perf_counter() - start

    def agreement() -> list[str]:
        before = int(metric.correct), int(metric.total)
        metric.update(*batch(256))
        added = int(metric.correct) - before[0], int(metric.total) - before[1]
        full = _full_matrix(metric.memory_embeddings, metric.memory_labels)
        return [f"counts of one update: nearwise {added}, full matrix {full}"]

    return Work(
        {
            "nearwise": update,
            "nearwise, searched anew": lambda: nearest_other(metric.memory_embeddings),
            "full matrix": lambda: _full_matrix(metric.memory_embeddings, metric.memory_labels),
        },
        [Target("nearwise", "full matrix", MUST_M1), Target("nearwise, searched anew", "full matrix")],
        agreement,
    )


def _full_matrix(embeddings: torch.Tensor, labels: torch.Tensor) -> tuple[int, int]:
    """Matches and counted rows by matrices of every pair, as metrics of this kind are usually written."""
    product = embeddings @ embeddings.T
    squares = product.diagonal()
    distances = torch.clamp(squares[None] - 2 * product + squares[:, None], min=0)
    zero = (distances == 0).float()
    distances = (distances + zero * 1e-16).sqrt_() * (1 - zero)
    nearest = distances.fill_diagonal_(torch.inf).argmin(dim=1)
    positive = (labels[None] == labels[:, None]) & ~torch.eye(len(labels), dtype=torch.bool)
    counted = positive.sum(dim=1) > 0
    return int((labels[nearest] == labels)[counted].sum()), int(counted.sum())


def _tester(threads: int, quick: bool) -> Work:
    torch.set_num_threads(threads)
    rows = 2_000 if quick else 20_000
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 100, (rows,), generator=generator)
    embeddings = torch.randn(100, 128, generator=generator)[labels] + 2 * torch.randn(rows, 128, generator=generator)
    dataset, normalized = TensorDataset(embeddings, labels), torch.nn.functional.normalize(embeddings)
    tester = GlobalEmbeddingSpaceTester(data_device="cpu")
    calculator = AccuracyCalculator()
    found: dict[str, Any] = {}

    def score() -> None:
        found["alone"] = calculator.get_accuracy(normalized, labels)

    def test() -> None:
        found["tester"] = tester.test({"val": dataset}, 1, torch.nn.Identity())["val"]

    def agreement() -> list[str]:
        same = all(found["tester"][f"{name}_level0"] == value for name, value in found["alone"].items())
        return [f"the tester's results are those of the calculator: {same}"]

    return Work(
        {"AccuracyCalculator": score, "tester": test},
        [Target("AccuracyCalculator", "tester", MUST_M2, ceiling=True)],
        agreement,
    )
