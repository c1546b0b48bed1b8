"""docs/guarantees.md and the suite say the same: every rule there has a test, every marked rule stands there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "guarantees.md"
RULE = re.compile(r"[A-Z]{1,2}-?\d+")


def listed_rules() -> list[str]:
    rows = re.findall(r"^\| *`?([A-Z]{1,2}-?\d+)`? *\|", DOCUMENT.read_text(), flags=re.MULTILINE)
    return [row.strip() for row in rows]


def marked_rules() -> dict[str, list[str]]:
    """Rules by the tests that are marked with them, read from the sources, so that any part of the suite can run."""
    marked: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
                    for argument in decorator.args:
                        marked.setdefault(ast.literal_eval(argument), []).append(f"{path.name}::{node.name}")
    return marked


LISTED, MARKED = listed_rules(), marked_rules()


@pytest.mark.parametrize("rule", LISTED)
def test_every_listed_rule_has_a_test(rule):
    assert MARKED.get(rule), f"no test is marked with {rule}"


@pytest.mark.parametrize("rule", sorted(MARKED))
def test_every_marked_rule_is_listed(rule):
    assert rule in LISTED, f"{rule} is not in docs/guarantees.md but marks {MARKED[rule]}"


def test_rules_are_listed_once_and_marks_stand_on_tests():
    assert [rule for rule, times in Counter(LISTED).items() if times > 1] == []
    assert all(RULE.fullmatch(rule) for rule in MARKED)
    for tests in MARKED.values():
        assert all(test.partition("::")[2].startswith(("test_", "Test")) for test in tests), tests
    assert len(LISTED) > 50, "the tables were not found"
