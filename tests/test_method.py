"""Every method of the core gives the same bits, on data that is easy for a filter and on data that is not."""

from __future__ import annotations

import numpy as np
import pytest

import nearwise

QUERIES, REFERENCES, FEATURES = 60, 4000, 40


def _rows(style: str, n: int, rng: np.random.Generator) -> np.ndarray:
    normal = rng.standard_normal((n, FEATURES)).astype(np.float32)
    match style:
        case "different norms":
            return normal * np.exp(3 * rng.standard_normal((n, 1))).astype(np.float32)
        case "a few huge coordinates":
            normal[:, :3] *= 1e4
        case "a common offset":
            normal += 1000
        case "copies":
            return normal[rng.integers(0, n // 20, n)]
        case "tight clusters":
            centres = np.random.default_rng(5).standard_normal((50, FEATURES)).astype(np.float32)
            return centres[rng.integers(0, 50, n)] + np.float32(1e-3) * normal
        case "whole numbers":
            return rng.integers(0, 256, (n, FEATURES)).astype(np.float32)
        case "heavy tails":
            return rng.standard_t(3, (n, FEATURES)).astype(np.float32)
        case "unit rows":
            return normal / np.linalg.norm(normal, axis=1, keepdims=True)
    return normal


STYLES = (
    "normal",
    "different norms",
    "a few huge coordinates",
    "a common offset",
    "copies",
    "tight clusters",
    "whole numbers",
    "heavy tails",
    "unit rows",
)


@pytest.mark.parametrize("distance", ["euclidean", "dot", "cosine", "snr"])
@pytest.mark.parametrize("style", STYLES)
def test_every_method_gives_the_same_bits(style: str, distance: str) -> None:
    rng = np.random.default_rng(len(style))
    reference, query = _rows(style, REFERENCES, rng), _rows(style, QUERIES, rng)
    for k in (1, 10, 100):
        want = nearwise.knn(query, reference, k, distance=distance, method="direct")
        for method in ("auto", "f32", "i8"):
            got = nearwise.knn(query, reference, k, distance=distance, method=method)
            assert got.distances.tobytes() == want.distances.tobytes(), f"{method}, k = {k}"
            assert got.indices.tobytes() == want.indices.tobytes(), f"{method}, k = {k}"


def test_stats_say_how_a_search_went() -> None:
    rng = np.random.default_rng(0)
    reference, query = _rows("normal", REFERENCES, rng), _rows("normal", QUERIES, rng)
    for method in ("f32", "i8", "direct"):
        found = nearwise.knn(query, reference, 10, method=method, stats=True)
        assert found.stats.method == method
        assert found.stats.level in ("portable", "avx2", "avx512")
        assert found.stats.per_query == found.stats.refined / QUERIES
        plain = nearwise.knn(query, reference, 10, method=method)
        assert len(plain) == 2
        np.testing.assert_array_equal(found.indices, plain.indices)
    few = nearwise.knn(query, reference, 10, method="i8", stats=True).stats
    assert 10 <= few.per_query < REFERENCES / 10, "the 8-bit filter leaves little to compute"


def test_stats_name_another_backend_and_a_distance_of_the_user() -> None:
    class Foreign:
        is_inverted = False

        def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.abs(x[:, None] - y[None]).sum(-1)

    rows = np.eye(3, dtype=np.float32)
    assert nearwise.knn(rows, rows, 1, distance=Foreign(), stats=True).stats.method == "direct"
    assert nearwise.knn(rows, rows, 1, backend="rust", stats=True).stats.method == "direct"


def test_data_whose_bound_is_loose_are_left_to_the_float32_filter() -> None:
    rng = np.random.default_rng(1)
    loose = rng.standard_normal((QUERIES + REFERENCES, FEATURES)).astype(np.float32)
    loose[:, 0] *= 1e5
    found = nearwise.knn(loose[:QUERIES], loose[QUERIES:], 5, stats=True)
    assert found.stats.method == "f32"


def test_the_environment_names_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    reference, query = _rows("normal", 500, rng), _rows("normal", 20, rng)
    monkeypatch.setenv("NEARWISE_METHOD", "i8")
    assert nearwise.knn(query, reference, 3, stats=True).stats.method == "i8"
    assert nearwise.knn(query, reference, 3, method="f32", stats=True).stats.method == "f32"
    monkeypatch.setenv("NEARWISE_METHOD", "fast")
    with pytest.raises(ValueError, match="NEARWISE_METHOD must be auto, f32, i8 or direct, got 'fast'"):
        nearwise.knn(query, reference, 3)
    monkeypatch.delenv("NEARWISE_METHOD")
    with pytest.raises(ValueError, match="method must be auto, f32, i8 or direct, got 'fast'"):
        nearwise.knn(query, reference, 3, method="fast")


def test_distances_without_a_product_take_the_float32_filter_instead() -> None:
    rng = np.random.default_rng(3)
    reference, query = _rows("normal", 500, rng), _rows("normal", 20, rng)
    assert nearwise.knn(query, reference, 3, distance="manhattan", method="i8", stats=True).stats.method == "f32"
