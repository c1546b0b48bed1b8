"""Fixtures shared by the suite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the seed of the random tests."""
    parser.addoption("--random-seed", default="0", help="seed of the rng fixture")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers from a seed that a failing test shows."""
    seed = int(request.config.getoption("random_seed"))
    print(f"random seed: {seed}")
    return np.random.default_rng(seed)


def numpy_array(rows: Any, dtype: str = "float32") -> np.ndarray:
    """Rows as a NumPy array; bfloat16 through ml_dtypes."""
    import ml_dtypes  # noqa: F401  (teaches NumPy the name)

    return np.asarray(rows).astype(dtype)


def torch_tensor(rows: Any, dtype: str = "float32") -> Any:
    """Rows as a torch tensor."""
    import torch

    return torch.tensor(np.asarray(rows), dtype=getattr(torch, dtype))


@pytest.fixture(params=[numpy_array, torch_tensor], ids=["numpy", "torch"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make rows of one kind: ``make(rows, dtype="float32")``."""
    return request.param
