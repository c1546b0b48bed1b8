"""Fixtures shared by the suite, and the record of which rules of docs/guarantees.md a run's tests hold."""

from __future__ import annotations

import numpy as np
import pytest

RULES = pytest.StashKey[dict]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record the rule ids that the collected tests are marked with, and where."""
    held: dict[str, list[str]] = {}
    for item in items:
        for mark in item.iter_markers("rule"):
            for rule in mark.args:
                held.setdefault(rule, []).append(item.nodeid)
    config.stash[RULES] = held


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers from a seed that a failing test shows."""
    seed = int(request.config.getoption("random_seed"))
    print(f"random seed: {seed}")
    return np.random.default_rng(seed)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the seed of the random tests."""
    parser.addoption("--random-seed", default="0", help="seed of the rng fixture")
