"""What a record must say of where it was made."""

import importlib.metadata
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")
DISTRIBUTIONS = ("numpy", "faiss-cpu", "torch", "scikit-learn", "torchmetrics", "pytorch-metric-learning")


def describe(threads: int) -> dict[str, object]:
    """CPU, its instruction sets, versions, commit, threads, load."""
    from nearwise.backends import rust

    level, _ = rust.levels()
    return {
        "cpu": cpu_name(),
        "flags": [flag for flag in FLAGS if flag in _cpu_info("flags").split() + _cpu_info("Features").split()],
        "level": level,
        "cores": os.cpu_count(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
        "commit": commit(),
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "load": round(os.getloadavg()[0], 2),
    }


def cpu_name() -> str:
    """Model name and, where the kernel tells it, family and model number."""
    numbers = "-".join(filter(None, (_cpu_info("cpu family"), _cpu_info("model"))))
    name = _cpu_info("model name") or platform.processor() or platform.machine()
    return f"{name} (family-model {numbers})" if numbers else name


def slug() -> str:
    """The CPU's name as a part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", cpu_name().replace("family-model", "").lower()).strip("-")


def commit() -> str:
    """The commit, with + where files differ from it (records aside)."""
    here = Path(__file__).parent
    try:
        name = _run("git", "-C", str(here), "rev-parse", "--short=10", "HEAD")
        changed = _run("git", "-C", str(here.parent), "status", "--porcelain", "--", "rust", "python", "benches/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + ("+" if changed else "")


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _cpu_info(key: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    match = re.search(rf"^{re.escape(key)}\s*: (.*)$", text, re.MULTILINE)
    return match[1] if match else ""
