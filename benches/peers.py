"""The peers: faiss and torch, each doing what its users would write.

A distribution or an administrator may have set OPENBLAS_CORETYPE or OPENBLAS_L2_SIZE. Then faiss runs twice, as it is
and in a child process without the two, and whichever is faster counts.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BLAS_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
TORCH_BLOCK = 1 << 26  # scores in one block of queries: 256 MB


def faiss_contestants(query: Any, reference: Any, k: int, threads: int) -> dict[str, Callable[[], object]]:
    """`IndexFlatL2.search`, once or twice (see above)."""
    contestants: dict[str, Callable[[], object]] = {"faiss": faiss_search(query, reference, k, threads)}
    if any(name in os.environ for name in BLAS_SETTINGS):
        contestants["faiss, BLAS settings unset"] = _in_a_child(query, reference, k, threads)
    return contestants


def faiss_search(query: Any, reference: Any, k: int, threads: int) -> Callable[[], Any]:
    """A search of an index that has been filled before."""
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(reference.shape[1])
    index.add(reference)

    def search() -> Any:
        faiss.omp_set_num_threads(threads)
        return index.search(query, k)

    return search


def torch_topk(query: Any, reference: Any, k: int, threads: int) -> Callable[[], Any]:
    """Blocked `torch.topk(q @ r.T)`: fewer operations than a distance needs."""
    import torch

    queries, references = torch.from_numpy(query), torch.from_numpy(reference)
    block = max(1, TORCH_BLOCK // len(references))

    def search() -> Any:
        torch.set_num_threads(threads)
        with torch.no_grad():
            return [torch.topk(queries[at : at + block] @ references.T, k) for at in range(0, len(queries), block)]

    return search


def _in_a_child(query: Any, reference: Any, k: int, threads: int) -> Callable[[], float]:
    folder = tempfile.TemporaryDirectory()
    np.save(Path(folder.name) / "query.npy", query)
    np.save(Path(folder.name) / "reference.npy", reference)
    environment = {name: value for name, value in os.environ.items() if name not in BLAS_SETTINGS}
    command = [sys.executable, __file__, folder.name, str(k), str(threads)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def search(child: Any = child, _folder: Any = folder) -> float:
        child.stdin.write("search\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    return search


def _child(folder: str, k: str, threads: str) -> None:
    query, reference = (np.load(Path(folder) / name) for name in ("query.npy", "reference.npy"))
    search = faiss_search(query, reference, int(k), int(threads))
    for _ in sys.stdin:
        start = time.perf_counter()
        search()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    _child(*sys.argv[1:])
