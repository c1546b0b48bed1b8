"""Rows of the table about search: P1 to P9, and what importing costs (G1)."""

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nearwise
from peers import faiss_contestants, torch_topk
from rounds import Row, Target, Work

METHODS = "method" in inspect.signature(nearwise.knn).parameters
EMBEDDINGS = "NEARWISE_BENCH_EMBEDDINGS"
SINGLE_QUERIES = 20


def rows() -> list[Row]:
    """Every row, with what must be reached on a CPU with VNNI and on one with AVX2 alone."""
    return [
        Row("P1", "10,000 x 100,000, d = 512, k = 10", partial(_dense, (10_000, 100_000, 512, 10), P1)),
        Row("P2", "10,000 x 100,000, d = 128, k = 10", partial(_dense, (10_000, 100_000, 128, 10), P2)),
        Row("P3", "2,000 x 100,000, d = 768, k = 100", partial(_dense, (2_000, 100_000, 768, 100), P3)),
        Row("P4", "2,000 x 10,000 sentence embeddings, d = 384, k = 10", _sentences),
        Row("P6", "1 query on a prepared index, 1,000,000 x 128, k = 10", _single),
        Row("P7", "2,000 x 20,000, d = 64, every neighbour in order", _everything),
        Row("P8", "P1 in float16 and bfloat16", _halves),
        Row("P9", "CustomKNN, batch_size=256, 2,000 x 100,000, d = 512, k = 10", _custom_knn),
        Row("G1", "import nearwise, beyond NumPy", _imports),
    ]


P1 = {"faiss": (6.0, 2.2), "torch": (7.0, 4.5), "f32": (1.7, 0.95)}
P2 = {"faiss": (5.0, 2.4), "f32": (1.7, 1.2)}
P3 = {"faiss": (3.5, 1.5), "f32": (1.7, 0.95)}
P4 = {"faiss": (4.0, 1.7), "f32": (1.7, 0.95)}


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _must(vnni: float, avx2: float) -> dict[str, float]:
    return {"VNNI": vnni, "AVX2": avx2}


def _dense(shape: tuple[int, int, int, int], must: dict[str, tuple[float, float]], threads: int, quick: bool) -> Work:
    queries, references, features, k = shape
    if quick:
        queries, references = queries // 10, references // 10
    return _against_peers(_normal(queries, features, seed=1), _normal(references, features), k, must, threads)


def _sentences(threads: int, quick: bool) -> Work:
    path = os.environ.get(EMBEDDINGS)
    if path:
        with np.load(path, allow_pickle=False) as arrays:
            rows = np.ascontiguousarray(arrays["embeddings"], dtype=np.float32)
        query, reference = rows[10_000:12_000], rows[:10_000]
    else:
        rows = nearwise.load_example().embeddings.astype(np.float32)
        query, reference = rows[1::6], rows[np.arange(len(rows)) % 6 != 1]
    if quick:
        query = query[::4]
    work = _against_peers(np.ascontiguousarray(query), np.ascontiguousarray(reference), 10, P4, threads)
    shape = f"{len(query):,} x {len(reference):,}"
    remark = f"{shape} rows of {EMBEDDINGS}" if path else f"{shape} rows of the built-in set ({EMBEDDINGS} is not set)"
    return Work(work.contestants, work.targets, lambda: [remark, *work.remarks()])


def _against_peers(query: Any, reference: Any, k: int, must: dict[str, tuple[float, float]], threads: int) -> Work:
    peers = {**faiss_contestants(query, reference, k, threads), "torch": torch_topk(query, reference, k, threads)}
    knn: Callable[..., Any] = partial(nearwise.knn, query, reference, k, distance="sqeuclidean", threads=threads)
    ours = {"nearwise": knn}
    targets = [Target("nearwise", peer, _must(*must[peer])) for peer in ("faiss", "torch") if peer in must]
    if METHODS:
        ours["nearwise f32"] = partial(knn, method="f32")
        targets.append(Target("nearwise f32", "faiss", _must(*must["f32"])))

    def remarks() -> list[str]:
        theirs, own = np.asarray(peers["faiss"]()[1]), knn().indices  # type: ignore[index]
        return [f"neighbour lists that differ from faiss's: {np.mean((own != theirs).any(axis=1)):.4%} of queries"]

    return Work({**ours, **peers}, targets, remarks)


def _single(threads: int, quick: bool) -> Work:
    reference = _normal(100_000 if quick else 1_000_000, 128)
    queries = _normal(SINGLE_QUERIES, 128, seed=1)
    peers = {
        name: partial(_one_by_one, search)
        for row in [faiss_contestants(queries[:1], reference, 10, threads)]
        for name, search in row.items()
    }
    ours: dict[str, Callable[[], object]] = {}
    if hasattr(nearwise, "KNNIndex"):
        index = nearwise.KNNIndex(reference, distance="sqeuclidean")
        ours["nearwise KNNIndex"] = partial(_one_by_one, lambda: index.search(queries[:1], 10))
    ours["nearwise knn"] = partial(
        _one_by_one, lambda: nearwise.knn(queries[:1], reference, 10, distance="sqeuclidean", threads=threads)
    )
    return Work({**ours, **peers}, [Target(next(iter(ours)), "faiss", _must(2.0, 2.0))])


def _one_by_one(search: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(SINGLE_QUERIES):
        search()
    return (time.perf_counter() - start) / SINGLE_QUERIES


def _everything(threads: int, quick: bool) -> Work:
    import torch

    query, reference = _normal(200 if quick else 2_000, 64, seed=1), _normal(20_000, 64)
    queries, references = torch.from_numpy(query), torch.from_numpy(reference)

    def distances() -> Any:
        torch.set_num_threads(threads)
        return torch.cdist(queries, references)

    matrix = distances()

    def only_sort() -> Any:
        torch.set_num_threads(threads)
        return torch.sort(matrix, dim=1)

    contestants = {
        "nearwise": partial(nearwise.knn, query, reference, len(reference), threads=threads),
        "torch cdist and sort": lambda: torch.sort(distances(), dim=1),
        "torch sort alone": only_sort,
    }
    return Work(contestants, [Target("nearwise", "torch sort alone", _must(5.0, 3.0)),
                              Target("nearwise", "torch cdist and sort")])  # fmt: skip


def _halves(threads: int, quick: bool) -> Work:
    import torch

    scale = 10 if quick else 1
    query, reference = _normal(10_000 // scale, 512, seed=1), _normal(100_000 // scale, 512)
    contestants = {}
    for name in ("float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        sides = torch.from_numpy(query).to(dtype), torch.from_numpy(reference).to(dtype)
        contestants[f"nearwise {name}"] = partial(nearwise.knn, *sides, 10, distance="sqeuclidean", threads=threads)
    targets = [
        Target("nearwise float32", f"nearwise {name}", _must(1.15, 1.2), ceiling=True)
        for name in ("float16", "bfloat16")
    ]
    return Work(contestants, targets)


def _custom_knn(threads: int, quick: bool) -> Work:
    import torch
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.inference import CustomKNN

    import nearwise.evaluation

    scale = 10 if quick else 1
    query = torch.from_numpy(_normal(2_000 // scale, 512, seed=1))
    reference = torch.from_numpy(_normal(100_000 // scale, 512))
    theirs = LpDistance(normalize_embeddings=False, power=2)
    ours = nearwise.distances.LpDistance(normalize_embeddings=False, power=2)

    def pytorch_metric_learning() -> Any:
        torch.set_num_threads(threads)
        with torch.no_grad():
            return CustomKNN(theirs, batch_size=256)(query, 10, reference, False)

    knn = nearwise.evaluation.CustomKNN(ours, batch_size=256)
    contestants = {
        "nearwise": lambda: knn(query, 10, reference, False),
        "pytorch-metric-learning": pytorch_metric_learning,
    }
    return Work(contestants, [Target("nearwise", "pytorch-metric-learning", _must(15.0, 6.0))])


def _imports(threads: int, quick: bool) -> Work:
    def started(statement: str) -> float:
        # The package's folder first, so that a folder called nearwise elsewhere does not count.
        environment = {**os.environ, "PYTHONPATH": str(Path(nearwise.__file__).parent.parent)}
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
        return time.perf_counter() - start

    contestants = {f"import {name}": partial(started, f"import {name}") for name in ("numpy", "nearwise")}
    return Work(contestants, [])
