"""AccuracyCalculator against pytorch-metric-learning's: time, memory above the inputs, and that the numbers agree.

    python benches/retrieval.py [R1] [R2] [products] [--theirs]

R1: 10,000 x 128, 100 classes, self query, five k-NN metrics, k=None. R2: the same, k="max_bin_count". products:
60,000 x 512 with about 11,000 classes, k=None. The other library runs only with --theirs (40 s and 8 GB for R1).
"""

import platform
import statistics
import sys
import threading
import time

import numpy as np
import psutil

import nearwise
from nearwise.evaluation import AccuracyCalculator

NAMES = [
    "mean_average_precision",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "precision_at_1",
    "r_precision",
]


def clustered(n, d, classes, spread, seed=0):
    """Labelled rows around one centre per class."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, classes, n)) if classes > 1000 else np.arange(n) % classes
    centres = rng.normal(size=(classes, d))
    return (centres[labels] + spread * rng.normal(size=(n, d))).astype(np.float32), labels


class Peak:
    """The most memory above that at entry, sampled."""

    def __enter__(self):
        process = psutil.Process()
        self.start = self.most = process.memory_info().rss
        self.running = True

        def sample():
            while self.running:
                self.most = max(self.most, process.memory_info().rss)
                time.sleep(0.005)

        self.thread = threading.Thread(target=sample)
        self.thread.start()
        return self

    def __exit__(self, *raised):
        self.running = False
        self.thread.join()

    @property
    def megabytes(self):
        return (self.most - self.start) / 1e6


def ours(rows, labels, k):
    return AccuracyCalculator(include=NAMES, k=k).get_accuracy(rows, labels)


def theirs(rows, labels, k):
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator as Theirs

    calculator = Theirs(include=NAMES, k=k, device=torch.device("cpu"))
    return calculator.get_accuracy(torch.from_numpy(rows), torch.from_numpy(labels))


def timed(function, *given):
    with Peak() as peak:
        start = time.perf_counter()
        found = function(*given)
        return time.perf_counter() - start, peak.megabytes, found


def report(name, rows, labels, k, rounds, with_theirs, their_k=None):
    ours(rows[:500], labels[:500], k)
    runs = [timed(ours, rows, labels, k) for _ in range(rounds)]
    seconds = statistics.median(run[0] for run in runs)
    print(f"{name}: nearwise {seconds:.3f} s, peak {max(run[1] for run in runs):.0f} MB")
    print("  " + ", ".join(f"{metric} {value:.6f}" for metric, value in runs[0][2].items()))
    if with_theirs:
        their_seconds, megabytes, found = timed(theirs, rows, labels, their_k or k)
        print(f"{name}: pytorch-metric-learning {their_seconds:.2f} s, peak {megabytes:.0f} MB")
        print(f"{name}: ratio {their_seconds / seconds:.1f}x")
        if their_k is None:
            worst = max(abs(runs[0][2][metric] - found[metric]) for metric in NAMES)
            print(f"{name}: largest difference {worst:.2e}")


def main(arguments):
    with_theirs = "--theirs" in arguments
    chosen = [argument for argument in arguments if not argument.startswith("--")] or ["R1", "R2"]
    print(f"{platform.processor() or platform.machine()}, nearwise {nearwise.__version__}, numpy {np.__version__}")
    if "R1" in chosen:
        report("R1", *clustered(10_000, 128, 100, 2.0), None, 3, with_theirs)
    if "R2" in chosen:
        report("R2", *clustered(10_000, 128, 100, 2.0), "max_bin_count", 5, with_theirs)
    if "products" in chosen:
        report("products", *clustered(60_000, 512, 11_000, 1.5), None, 1, with_theirs, "max_bin_count")


if __name__ == "__main__":
    main(sys.argv[1:])
