"""Peak memory of `nearwise search` with a memory-mapped reference of 4 GB.

    python benches/memory.py [--gigabytes 4] [--folder /tmp]

Writes a reference file, searches it with the command line in a process of its own, and samples what Linux says of that
process: anonymous memory (what the search allocates), pages of files (the mapped reference, which the system could take
back at any time) and the sum, whose highest value the kernel itself keeps (VmHWM). The sum must stay below 600 MB.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import machine

LIMIT_MB = 600
FEATURES = 512
BLOCK = 1 << 16


def write_reference(path: Path, rows: int) -> None:
    """An .fbin of normal rows, written block by block."""
    generator = np.random.default_rng(0)
    with path.open("wb") as stream:
        stream.write(np.array([rows, FEATURES], np.uint32).tobytes())
        for start in range(0, rows, BLOCK):
            stream.write(generator.standard_normal((min(BLOCK, rows - start), FEATURES), dtype=np.float32))


def watch(command: list[str]) -> dict[str, float]:
    """Run a command; return its highest memory in MB, by kind, and its time in seconds."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    peaks: dict[str, float] = {}
    while process.poll() is None:
        for line in _status(process.pid):
            name, _, value = line.partition(":")
            if name in ("VmHWM", "RssAnon", "RssFile"):
                peaks[name] = max(peaks.get(name, 0.0), int(value.split()[0]) / 1024)
        time.sleep(0.005)
    if process.returncode:
        sys.exit(f"the search ended with status {process.returncode}")
    return {**peaks, "seconds": time.perf_counter() - start}


def _status(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--folder", help="where to put the reference")
    options = parser.parse_args()
    rows = int(options.gigabytes * 1e9 / (4 * FEATURES))
    results: dict[str, Any] = {"machine": machine.describe(0), "reference": f"{rows} x {FEATURES} float32"}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        reference, query, output = (Path(folder) / name for name in ("reference.fbin", "query.npy", "out.npz"))
        write_reference(reference, rows)
        for count in options.queries:
            np.save(query, np.random.default_rng(1).standard_normal((count, FEATURES), dtype=np.float32))
            command = [sys.executable, "-m", "nearwise", "search", str(reference), str(query), "-k", "10", "-v"]
            peaks = watch([*command, "-o", str(output)])
            results[f"{count} queries"] = {name: round(value, 1) for name, value in peaks.items()}
            print(f"{count} queries: {results[f'{count} queries']}", flush=True)
            assert peaks["VmHWM"] < LIMIT_MB, f"{peaks['VmHWM']:.0f} MB, must stay below {LIMIT_MB}"
    target = Path(__file__).parent / "record" / f"{results['machine']['when'][:10]}-{machine.slug()}-memory.json"
    if options.gigabytes >= 4:
        target.write_text(json.dumps(results, indent=1) + "\n")
        print("recorded in", target)


if __name__ == "__main__":
    main()
