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
