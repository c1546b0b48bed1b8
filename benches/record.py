"""Records: benches/record/<date>-<cpu>.json holds what was measured, the .md beside it says it in a table.

A row measured again on the same day takes the place of the earlier one; each says when and on which commit.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine

FOLDER = Path(__file__).parent / "record"


def rows(kind: str) -> dict[str, Any]:
    """What today's record of this machine holds."""
    source = _source(kind)
    found: dict[str, Any] = json.loads(source.read_text())["rows"] if source.exists() else {}
    return found


def _source(kind: str) -> Path:
    return FOLDER / f"{datetime.now(UTC):%Y-%m-%d}-{machine.slug()}-{kind}.json"


def add(kind: str, threads: int, results: dict[str, Any]) -> Path:
    """Put results, by row, into today's record of this machine; return its table."""
    source = _source(kind)
    record: dict[str, Any] = {"rows": rows(kind)}
    here = machine.describe(threads)
    record["machine"] = {key: here[key] for key in ("cpu", "flags", "level", "cores", "threads", "system", "versions")}
    for name, result in results.items():
        record["rows"][name] = {**result, "commit": here["commit"], "when": here["when"]}
    record["rows"] = dict(sorted(record["rows"].items()))
    source.parent.mkdir(exist_ok=True)
    source.write_text(json.dumps(record, indent=1) + "\n")
    table = source.with_suffix(".md")
    table.write_text(_heading(kind, record["machine"]) + TABLES[kind](record["rows"]))
    return table


def column(flags: list[str]) -> str:
    """Which of the two columns of targets holds for a CPU."""
    return "VNNI" if {"avx512_vnni", "avx_vnni"} & set(flags) else "AVX2"


def _heading(kind: str, here: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    return (
        f"# {kind.capitalize()}: {here['cpu']}\n\n"
        f"{here['cores']} cores, {here['threads']} threads for every contestant; flags: {' '.join(here['flags'])}; "
        f"level in use: {here['level']}. {here['system']}; {versions}.\n\n"
        "Median of the rounds after one to warm up; the contestants alternate in one process.\n\n"
    )


def _table(rows: dict[str, Any]) -> str:
    lines = ["| row | work | ms | ratios (must reach) | commit |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        times = "<br>".join(f"{who} {1000 * seconds:,.4g}" for who, seconds in row["seconds"].items())
        lines.append(f"| {name} | {row['what']} | {times} | {'<br>'.join(row['verdicts'])} | {row['commit']} |")
    remarks = [f"- {name}: {remark}" for name, row in rows.items() for remark in row["remarks"]]
    return "\n".join([*lines, "", *remarks]) + "\n"


def _grid(rows: dict[str, Any]) -> str:
    lines = [
        "| references | queries | d | k | nearwise ms | faiss ms | ratio | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows.values():
        ours, faiss = row["seconds"]["nearwise"], row["seconds"]["faiss"]
        shape = " | ".join(f"{row['shape'][key]:,}" for key in ("references", "queries", "d", "k"))
        rounds = row["rounds"] or "first call"
        lines.append(f"| {shape} | {1000 * ours:,.4g} | {1000 * faiss:,.4g} | {faiss / ours:.2f} | {rounds} |")
    ratios = sorted(row["seconds"]["faiss"] / row["seconds"]["nearwise"] for row in rows.values())
    summary = f"{len(ratios)} shapes; slowest {ratios[0]:.2f}, median {ratios[len(ratios) // 2]:.2f} times faiss."
    return "\n".join([*lines, "", summary]) + "\n"


def _robustness(rows: dict[str, Any]) -> str:
    lines = [
        "Milliseconds, and in brackets the exact values computed for each query.\n",
        "| data | distance | k | chosen | auto | f32 | i8 | auto / f32 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        seconds, survivors = row["seconds"], row["survivors"]
        each = " | ".join(f"{1000 * seconds[m]:.4g} ({survivors[m]:,.4g})" for m in ("auto", "f32", "i8"))
        share = seconds["auto"] / seconds["f32"]
        lines.append(f"| {name} | {row['distance']} | {row['k']:,} | {row['chosen']} | {each} | {share:.2f} |")
    return "\n".join(lines) + "\n"


TABLES = {"table": _table, "grid": _grid, "robustness": _robustness}
