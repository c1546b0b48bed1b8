"""Records: benches/record/<date>-<cpu>.json holds what was measured, the .md beside it says it in a table.

A row measured again on the same day takes the place of the earlier one; each says when and on which commit.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine

FOLDER = Path(__file__).parent / "record"


def add(kind: str, threads: int, results: dict[str, Any]) -> Path:
    """Put results, by row, into today's record of this machine; return its table."""
    base = FOLDER / f"{datetime.now(UTC):%Y-%m-%d}-{machine.slug()}-{kind}"
    source = base.with_suffix(".json")
    record = json.loads(source.read_text()) if source.exists() else {"rows": {}}
    here = machine.describe(threads)
    record["machine"] = {key: here[key] for key in ("cpu", "flags", "level", "cores", "threads", "system", "versions")}
    for name, result in results.items():
        record["rows"][name] = {**result, "commit": here["commit"], "when": here["when"]}
    record["rows"] = dict(sorted(record["rows"].items()))
    source.parent.mkdir(exist_ok=True)
    source.write_text(json.dumps(record, indent=1) + "\n")
    table = base.with_suffix(".md")
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
    lines = ["| references | queries | d | k | nearwise ms | faiss ms | ratio |", "|---|---|---|---|---|---|---|"]
    for row in rows.values():
        ours, faiss = row["seconds"]["nearwise"], row["seconds"]["faiss"]
        shape = " | ".join(f"{row['shape'][key]:,}" for key in ("references", "queries", "d", "k"))
        lines.append(f"| {shape} | {1000 * ours:,.4g} | {1000 * faiss:,.4g} | {faiss / ours:.2f} |")
    ratios = sorted(row["seconds"]["faiss"] / row["seconds"]["nearwise"] for row in rows.values())
    summary = f"{len(ratios)} shapes; slowest {ratios[0]:.2f}, median {ratios[len(ratios) // 2]:.2f} times faiss."
    return "\n".join([*lines, "", summary]) + "\n"


TABLES = {"table": _table, "grid": _grid}
