"""Rows of the table about retrieval metrics: every neighbour (R1), as many as R-metrics need (R2), large data (R3).

The peer is pytorch-metric-learning's AccuracyCalculator. It takes 40 s and 8 GB for R1 on two cores, so it is measured
once in a run after a small call to warm up, and R3 measures both sides once.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nearwise.evaluation import AccuracyCalculator
from rounds import Row, Target, Work

NAMES = [
    "mean_average_precision",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "precision_at_1",
    "r_precision",
]
# What stays the same when a search keeps no more neighbours than the largest class has.
AT_R = ["mean_average_precision_at_r", "precision_at_1", "r_precision"]
PEER = "pytorch-metric-learning"
WARM = 500  # rows of the call that warms up
PEAK_MB = 300
EVERY, AS_NEEDED = None, "max_bin_count"


def rows() -> list[Row]:
    """Every row, with what must be reached."""
    what = "AccuracyCalculator, 10,000 x 128 self query, 100 classes, five k-NN metrics"
    return [
        Row("R1", f"{what}, k=None", partial(_small, EVERY, {"VNNI": 100.0, "AVX2": 50.0})),
        Row("R2", f'{what}, k="max_bin_count"', partial(_small, AS_NEEDED, {"VNNI": 8.0, "AVX2": 4.0})),
        Row(
            "R3",
            "AccuracyCalculator, 60,000 x 512 self query, 11,000 classes, five k-NN metrics, k=None, beside "
            f'{PEER} with FaissKNN and k="max_bin_count"',
            _large,
        ),
    ]


def clustered(size: int, features: int, classes: int, spread: float) -> tuple[Any, Any]:
    """Labelled rows around one centre per class; the classes of the many are of different sizes."""
    generator = np.random.default_rng(0)
    many = size < 10 * classes
    labels = np.sort(generator.integers(0, classes, size)) if many else np.arange(size) % classes
    centres = generator.standard_normal((classes, features), dtype=np.float32)
    rows = generator.standard_normal((size, features), dtype=np.float32)
    rows *= np.float32(spread)
    rows += centres[labels]
    return rows, labels


def _small(k: Any, must: dict[str, float], threads: int, quick: bool) -> Work:
    shape = (1_000, 128, 10, 2.0) if quick else (10_000, 128, 100, 2.0)
    embeddings, labels = clustered(*shape)
    found: dict[str, Any] = {}

    def ours() -> None:
        found["nearwise"] = AccuracyCalculator(include=NAMES, k=k).get_accuracy(embeddings, labels)

    _set_threads(threads)
    peer = Once(partial(_theirs, embeddings, labels, k))
    limit = f", at most {PEAK_MB}" if k is EVERY else ""

    def remarks() -> list[str]:
        return [peer.remark(PEER), _peak(shape, k) + limit, _difference(found["nearwise"], peer.found, NAMES)]

    return Work({"nearwise": ours, PEER: peer}, [Target("nearwise", PEER, must)], remarks)


def _large(threads: int, quick: bool) -> Work:
    shape = (6_000, 512, 1_100, 1.5) if quick else (60_000, 512, 11_000, 1.5)
    embeddings, labels = clustered(*shape)
    _set_threads(threads)
    _ours(embeddings[:WARM], labels[:WARM], EVERY)
    mine = Once(partial(_ours, embeddings, labels, EVERY))
    peer = Once(partial(_theirs, embeddings, labels, AS_NEEDED))

    def remarks() -> list[str]:
        difference = _difference(mine.found, peer.found, AT_R)
        return ["nearwise: measured once", peer.remark(PEER), _peak(shape, EVERY), difference]

    return Work({"nearwise": mine, PEER: peer}, [Target("nearwise", PEER)], remarks)


class Once:
    """Work that is too long to repeat: done when first called, and the same seconds every time."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.seconds = 0.0
        self.megabytes = 0.0
        self.found: Any = None

    def __call__(self) -> float:
        if not self.seconds:
            with _Peak() as peak:
                start = time.perf_counter()
                self.found = self.function()
                self.seconds = time.perf_counter() - start
            self.megabytes = peak.megabytes
        return self.seconds

    def remark(self, name: str) -> str:
        return f"{name}: measured once, peak {self.megabytes:,.0f} MB above its inputs (sampled)"


class _Peak:
    """The most memory above that at entry, sampled."""

    def __enter__(self) -> "_Peak":
        self.start = self.most = _resident("VmRSS")
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def _sample(self) -> None:
        while not self.done.wait(0.005):
            self.most = max(self.most, _resident("VmRSS"))

    def __exit__(self, *raised: object) -> None:
        self.done.set()
        self.thread.join()

    @property
    def megabytes(self) -> float:
        return (self.most - self.start) / 1e6


def _ours(embeddings: Any, labels: Any, k: Any) -> Any:
    return AccuracyCalculator(include=NAMES, k=k).get_accuracy(embeddings, labels)


def _theirs(embeddings: Any, labels: Any, k: Any) -> Any:
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator as Theirs
    from pytorch_metric_learning.utils.inference import FaissKNN

    calculator = Theirs(include=NAMES, k=k, device=torch.device("cpu"), knn_func=FaissKNN())
    return calculator.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(labels))


def _set_threads(threads: int) -> None:
    """The same number for everyone, and a small call of the peer so that its libraries are loaded."""
    import faiss
    import torch

    os.environ["NEARWISE_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    _theirs(*clustered(WARM, 16, 10, 1.0), AS_NEEDED)


def _difference(found: Any, theirs: Any, names: list[str]) -> str:
    worst = max(abs(found[name] - theirs[name]) for name in names)
    return f"largest difference of {', '.join(names)}: {worst:.1e}"


def _peak(shape: tuple[int, int, int, float], k: Any) -> str:
    """Our peak in a process of its own, by the kernel's account."""
    command = [sys.executable, __file__, *map(str, shape), str(k)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"nearwise: peak {float(done.stdout):,.0f} MB above the inputs"


def _child(size: str, features: str, classes: str, spread: str, k: str) -> None:
    embeddings, labels = clustered(int(size), int(features), int(classes), float(spread))
    wanted = AS_NEEDED if k == AS_NEEDED else EVERY
    _ours(embeddings[:WARM], labels[:WARM], wanted)
    before = _resident("VmHWM")
    # Memory that NumPy has given back would hide what the call takes: fill up to the highest so far.
    filler = np.ones(max(0, before - _resident("VmRSS")) // 8)
    _ours(embeddings, labels, wanted)
    print((_resident("VmHWM") - before) / 1e6)
    del filler


def _resident(name: str) -> int:
    """Bytes of this process that Linux counts under a name: VmRSS now, VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    _child(*sys.argv[1:])
