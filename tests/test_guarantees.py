"""docs/guarantees.md and the suite say the same: every rule there has a test, every marked rule stands there.

Marks are read from collected tests, those of parameters included. A run of a part of the suite collects the whole of it
once more, in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCUMENT = TESTS.parent / "docs" / "guarantees.md"
OUTPUT = "NEARWISE_RULES_TO"


def rules_of(items) -> dict[str, list[str]]:
    """Rules by the tests that are marked with them."""
    held: dict[str, list[str]] = {}
    for item in items:
        for mark in item.iter_markers("rule"):
            for rule in mark.args:
                held.setdefault(rule, []).append(item.nodeid)
    return held


def pytest_collection_finish(session):
    """Write the rules of a run that only collects; this file is its plugin."""
    if OUTPUT in os.environ:
        Path(os.environ[OUTPUT]).write_text(json.dumps(rules_of(session.items)))


@pytest.fixture(scope="module")
def marked(request, tmp_path_factory) -> dict[str, list[str]]:
    files = {path for path in TESTS.rglob("test_*.py") if "def test_" in path.read_text()}
    session = request.session
    if files <= {item.path for item in session.items} and not session.config.getoption("keyword"):
        return rules_of(session.items)
    output = tmp_path_factory.mktemp("rules") / "rules.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "test_guarantees", str(TESTS)]
    environment = os.environ | {OUTPUT: str(output), "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def listed() -> list[str]:
    return re.findall(r"^\| *([A-Z]+-?\d+) *\|", DOCUMENT.read_text(), flags=re.MULTILINE)


def test_every_listed_rule_has_a_test(listed, marked):
    assert [rule for rule in listed if rule not in marked] == []


def test_every_marked_rule_is_listed(listed, marked):
    assert {rule: tests for rule, tests in marked.items() if rule not in listed} == {}


def test_rules_are_listed_once(listed):
    assert [rule for rule, times in Counter(listed).items() if times > 1] == []
    assert len(listed) > 50, "the tables were not found"


# Rules about an area as a whole, and where its tests are. X is for choices between sources that contradict each other.
AREAS = {
    r"tests/test_(select_)?threshold": ("I-1", "I-2", "I-3", "I-4", "I-5"),
    r"tests/metrics/": ("E-0", "X21"),
    r"tests/(testers|logging_presets)/": ("T-0", "X2", "X4", "X5", "X10", "X15", "X19"),
    r"tests/logging_presets/": ("H-0",),
    r"tests/test_(accuracy|knn_contract|faiss)": ("X1", "X3", "X12", "X14", "X16", "X17", "X18", "X20"),
    r"tests/test_match_finder": ("X8", "X9"),
}


@pytest.mark.rule("G-13")
@pytest.mark.parametrize("area", AREAS)
def test_rules_of_a_whole_area_are_listed_and_tested_there(area, listed, marked):
    for rule in AREAS[area]:
        assert listed.count(rule) == 1, rule
        assert [test for test in marked[rule] if re.match(area, test)], rule
