"""nearwise beside its peers, one process, alternating rounds.

    python benches/run.py table [--quick] [--rows P1,P4] [--rounds 5] [--threads 2]
    python benches/run.py grid [--quick] [--from 0 --to 40] [--missing]
    python benches/run.py robustness [--quick] [--rounds 5]

Set NEARWISE_BENCH_EMBEDDINGS to an .npz with `embeddings` (12000, 384) for the full row P4.
"""

import argparse
import importlib.util
import os
import sys
import time
from itertools import product
from typing import Any

import numpy as np

import machine
import nearwise
import record
import robustness
import search
from peers import faiss_contestants
from rounds import Row, Target, measure, medians

# References, queries, features, k.
GRID = ((1_000, 10_000, 100_000, 1_000_000), (1, 10, 100, 1_000, 10_000), (16, 64, 128, 384, 768), (1, 10, 100))
LEAST_WORK, MOST_WORK = 1e8, 1e12  # multiply-adds of a shape in the grid
ROUND_SECONDS = 1.5  # what the rounds of a shape of the grid may take after the first


def main() -> None:
    options = _options()
    if options.kind == "grid":
        _run_grid(options)
    elif options.kind == "robustness":
        results = robustness.run(options.threads, options.rounds, options.quick)
        if not options.quick:
            print("recorded in", record.add("robustness", options.threads, results))
    else:
        _run_table(options)


def _run_table(options: argparse.Namespace) -> None:
    wanted = options.rows.split(",") if options.rows else None
    for row in _rows():
        if wanted is None or row.id in wanted:
            result = _run_row(row, options)
            if not options.quick:
                print("recorded in", record.add("table", options.threads, {row.id: result}))


def _rows() -> list[Row]:
    rows = search.rows()
    for name in ("threshold", "retrieval", "training"):
        if importlib.util.find_spec(name):
            module = importlib.import_module(name)
            if hasattr(module, "rows"):
                rows += module.rows()
    return rows


def _run_row(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    print(f"\n{row.id}: {row.what}{' (a tenth of it)' if options.quick else ''}", flush=True)
    work = row.prepare(options.threads, options.quick)
    seconds = measure(work.contestants, options.rounds)
    middle = medians(seconds)
    for name, value in middle.items():
        spread = f"{1000 * min(seconds[name]):.4g} to {1000 * max(seconds[name]):.4g}"
        print(f"  {name:<28} {1000 * value:10,.4g} ms   ({spread})")
    verdicts = [verdict for target in work.targets if (verdict := _verdict(target, middle))]
    remarks = work.remarks()
    for line in verdicts + remarks:
        print(f"  {line}")
    rounds = {name: [round(value, 6) for value in values] for name, values in seconds.items()}
    return {"what": row.what, "seconds": middle, "rounds": rounds, "verdicts": verdicts, "remarks": remarks}


def _verdict(target: Target, middle: dict[str, float]) -> str:
    """The ratio against the fastest form of the peer, and whether it is what it must be."""
    peers = [value for name, value in middle.items() if name == target.peer or name.startswith(f"{target.peer},")]
    if target.ours not in middle or not peers:
        return ""
    ratio = min(peers) / middle[target.ours]
    said = f"{target.ours}: {ratio:.2f} x {target.peer}"
    if target.ceiling:
        said = f"{target.peer}: {ratio:.2f} x the time of {target.ours}"
    must = target.must.get(record.column(machine.describe(1)["flags"]))  # type: ignore[arg-type]
    if must is None:
        return said
    reached = ratio <= must if target.ceiling else ratio >= must
    return f"{said} ({'at most' if target.ceiling else 'must'} {must:g}: {'reached' if reached else 'NOT REACHED'})"


def _run_grid(options: argparse.Namespace) -> None:
    most = MOST_WORK / 100 if options.quick else MOST_WORK
    shapes = [shape for shape in product(*GRID) if LEAST_WORK <= shape[0] * shape[1] * shape[2] <= most]
    data: dict[tuple[int, int, int], Any] = {}
    done = record.rows("grid") if options.missing else {}
    for number, (references, queries, features, k) in enumerate(shapes):
        name = f"{references:07d}-{queries:05d}-{features:03d}-{k:03d}"
        if not options.first <= number < options.last or name in done:
            continue
        key = (references, queries, features)
        if key not in data:
            data = {key: _normal_pair(*key)}
        result = _run_shape(*data[key], k, options)
        ratio = result["seconds"]["faiss"] / result["seconds"]["nearwise"]
        rounds = f"{result['rounds']} rounds" if result["rounds"] else "one call each"
        shape = f"{references:9,} x {queries:6,} d={features:<4} k={k:<4}"
        print(f"{number:3d}/{len(shapes)} {shape} {ratio:.2f} ({rounds})", flush=True)
        if not options.quick:
            result["shape"] = {"references": references, "queries": queries, "d": features, "k": k}
            record.add("grid", options.threads, {name: result})


def _normal_pair(references: int, queries: int, features: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    return tuple(generator.standard_normal((rows, features), dtype=np.float32) for rows in (queries, references))  # type: ignore[return-value]


def _run_shape(query: Any, reference: Any, k: int, options: argparse.Namespace) -> dict[str, Any]:
    contestants = {
        "nearwise": lambda: nearwise.knn(query, reference, k, distance="sqeuclidean", threads=options.threads),
        **faiss_contestants(query, reference, k, options.threads),
    }
    seconds = {name: _seconds(contestant) for name, contestant in contestants.items()}
    # A long search warms itself up: its first call counts. A short one is repeated: noise is as long as it is.
    rounds = min(25, int(ROUND_SECONDS / sum(seconds.values())))
    middle = medians(measure(contestants, rounds)) if rounds else seconds
    middle["faiss"] = min(value for name, value in middle.items() if name.startswith("faiss"))
    return {"seconds": middle, "rounds": rounds}


def _seconds(contestant: Any) -> float:
    start = time.perf_counter()
    own = contestant()
    return own if isinstance(own, float) else time.perf_counter() - start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["table", "grid", "robustness"])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows; nothing is recorded")
    parser.add_argument("--rows", help="only these, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--from", dest="first", type=int, default=0, help="first shape of the grid")
    parser.add_argument("--to", dest="last", type=int, default=sys.maxsize, help="the shape to stop before")
    parser.add_argument("--missing", action="store_true", help="only shapes that today's record of the grid lacks")
    return parser.parse_args()


if __name__ == "__main__":
    main()
