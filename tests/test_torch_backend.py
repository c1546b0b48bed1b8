"""The torch backend against the oracle and the core: the same neighbours and the same bits, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import nearwise
import oracle
from nearwise import backends, distances
from nearwise._arrays import rows as wrapped

torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA")),
]
DTYPES = ["float16", "bfloat16", "float32", "float64"]


def _ours(spec: oracle.Spec):
    plain = {"normalize_embeddings": spec.normalize is not None, "power": spec.power}
    if spec.kind == "lp":
        return distances.LpDistance(p=spec.p, **plain)
    if spec.kind == "snr":
        return distances.SNRDistance(**plain)
    if spec.kind == "dot":
        return distances.DotProductSimilarity(**plain)
    return distances.CosineSimilarity(power=spec.power)


SPECS = [
    *oracle.NAMED.values(),
    oracle.Spec("lp", normalize=2.0),
    oracle.Spec("snr", normalize=2.0),
    oracle.Spec("dot", normalize=2.0),
    oracle.Spec("dot", power=2.0),
    oracle.Spec("lp", p=1.0, normalize=1.0),
]
GENERAL = [
    oracle.Spec("lp", p=3.0),
    oracle.Spec("lp", p=2.5),
    oracle.Spec("lp", power=1.5),
    oracle.Spec("lp", power=3.0),
]


def _search(spec, query, reference, k, *, exclude_self=False, nan_policy="raise", **options):
    return nearwise.knn(
        query,
        reference,
        k,
        distance=_ours(spec),
        ref_includes_query=exclude_self,
        nan_policy=nan_policy,
        backend="torch",
        **options,
    )


def _check(spec, query, reference, k, *, exclude_self=False, nan_policy="raise", ulps=0):
    found, indices = _search(spec, query, reference, k, exclude_self=exclude_self, nan_policy=nan_policy)
    assert found.device == query.device
    assert indices.dtype == torch.int64
    want, columns = oracle.neighbors(spec, query, reference, k, exclude_self=exclude_self)
    if ulps == 0:
        np.testing.assert_array_equal(indices.cpu().numpy(), columns)
    oracle.assert_same(found.cpu().numpy(), want, ulps=ulps)


def _kinds(rng):
    """Rows of every kind that breaks careless arithmetic."""
    normal = rng.normal(size=(400, 37))
    few = rng.integers(-1, 2, size=(400, 5)).astype(float)
    huge = normal.copy()
    huge[7, 3] = 1e15
    zeros = normal.copy()
    zeros[::3] = 0.0
    return {
        "normal": normal,
        "few values": few,
        "offset": rng.normal(size=(400, 20)) + 1e4,
        "large": normal * 1e15,
        "small": normal * 1e-15,
        "subnormal": normal * 1e-40,
        "one huge": huge,
        "zeros": zeros,
        "one feature": rng.normal(size=(400, 1)),
        "constant": np.full((400, 17), 0.3),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.rule("G-1", "G-4", "D-19")
def test_every_distance_has_the_neighbours_and_bits_of_the_formula(rng, device, dtype):
    rows = torch.tensor(rng.normal(size=(330, 33)), dtype=getattr(torch, dtype), device=device)
    for spec in SPECS:
        _check(spec, rows[:20], rows[20:], 5)
        _check(spec, rows[:20], rows, 3, exclude_self=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.rule("G-4")
def test_hard_rows_have_the_neighbours_and_bits_of_the_formula(rng, device, dtype):
    for rows in _kinds(rng).values():
        tensor = torch.tensor(rows, dtype=getattr(torch, dtype), device=device)
        for spec in (oracle.EUCLIDEAN, oracle.SQEUCLIDEAN, oracle.COSINE, oracle.DOT, oracle.SNR):
            _check(spec, tensor[:12], tensor, 6, nan_policy="last")
            _check(spec, tensor[:12], tensor, 6, exclude_self=True, nan_policy="last")


def test_general_powers_are_one_unit_in_the_last_place_away_at_most(rng):
    rows = torch.tensor(rng.normal(size=(200, 19)), dtype=torch.float32)
    for spec in GENERAL:
        _check(spec, rows[:10], rows, 4, ulps=1)


@pytest.mark.rule("G-3", "K-12")
def test_nan_is_refused_or_ranks_last(rng):
    rows = torch.tensor(rng.normal(size=(300, 8)), dtype=torch.float32)
    rows[5, 2] = float("nan")
    rows[9, 0] = float("inf")
    with pytest.raises(ValueError, match=r"reference must not contain NaN .* row 5"):
        _search(oracle.EUCLIDEAN, rows[20:], rows, 3)
    for spec in (oracle.EUCLIDEAN, oracle.DOT, oracle.COSINE, oracle.SNR):
        _check(spec, rows[:12], rows, 4, nan_policy="last")
        _check(spec, rows[:12], rows, 299, exclude_self=True, nan_policy="last")


def test_rows_whose_squares_overflow_are_refused_as_the_core_does():
    rows = torch.ones((4, 3), dtype=torch.float64)
    rows[2] = 1e160
    messages = []
    for backend in ("torch", "rust"):
        with pytest.raises(ValueError, match="reference must have rows with a norm below") as caught:
            nearwise.knn(rows[:1], rows, 1, backend=backend)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.rule("D-2", "D-3", "D-17")
def test_matrix_and_pairs_have_the_bits_of_the_core(rng):
    torch_backend, core = backends.get("torch"), backends.get("rust")
    x = torch.tensor(rng.normal(size=(23, 35)), dtype=torch.float32)
    y = torch.tensor(rng.normal(size=(31, 35)), dtype=torch.float32)
    for spec in SPECS:
        formula = distances.resolve(_ours(spec)).formula
        got = torch_backend.matrix(wrapped(x, "x"), wrapped(y, "y"), formula)
        oracle.assert_same(got.numpy(), core.matrix(wrapped(x, "x"), wrapped(y, "y"), formula))
        got = torch_backend.pairwise(wrapped(x, "x"), wrapped(y[:23], "y"), formula)
        oracle.assert_same(got.numpy(), core.pairwise(wrapped(x, "x"), wrapped(y[:23], "y"), formula))
        assert torch_backend.matrix(wrapped(x[:0], "x"), wrapped(y, "y"), formula).shape == (0, 31)


def test_a_candidate_that_the_scores_rank_low_is_still_found(rng):
    # Far from the origin float32 scores are off by more than the distances between rows.
    rows = torch.tensor(rng.normal(size=(3000, 24)) * 1e-3, dtype=torch.float64)
    rows[1500:] += 1e3
    _check(oracle.EUCLIDEAN, torch.cat([rows[:8], rows[-8:]]), rows, 7)


def test_blocks_do_not_change_a_bit(rng):
    rows = torch.tensor(rng.normal(size=(257, 20)), dtype=torch.float32)
    whole = _search(oracle.COSINE, rows, rows, 5, exclude_self=True)
    parts = _search(oracle.COSINE, rows, rows, 5, exclude_self=True, batch_size=13)
    assert torch.equal(whole.distances, parts.distances)
    assert torch.equal(whole.indices, parts.indices)


def test_state_of_torch_is_left_as_found(rng):
    rows = torch.tensor(rng.normal(size=(300, 16)), dtype=torch.float32, requires_grad=True)
    want = _search(oracle.EUCLIDEAN, rows, rows, 3)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = _search(oracle.EUCLIDEAN, rows, rows, 3)
            assert torch.is_autocast_enabled("cpu")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.is_grad_enabled()
    assert not got.distances.requires_grad
    assert torch.equal(want.distances, got.distances)
    assert torch.equal(want.indices, got.indices)


def test_flushed_subnormals_do_not_change_a_bit(rng):
    rows = torch.tensor(rng.normal(size=(300, 16)) * 1e-40, dtype=torch.float32)
    threads = torch.get_num_threads()
    want = oracle.neighbors(oracle.EUCLIDEAN, rows, rows, 4)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormal numbers")
    try:
        got = _search(oracle.EUCLIDEAN, rows, rows, 4)
        assert float(torch.tensor([1e-40]) * 1.0) == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(got.indices.numpy(), want[1])
    oracle.assert_same(got.distances.numpy(), want[0])


def test_numpy_rows_are_searched_by_name(rng):
    rows = rng.normal(size=(100, 6))
    got = nearwise.knn(rows, rows[::-1], 2, backend="torch")
    want = oracle.neighbors(oracle.EUCLIDEAN, rows, rows[::-1], 2)
    assert isinstance(got.distances, np.ndarray)
    oracle.assert_same(got.distances, want[0])
    np.testing.assert_array_equal(got.indices, want[1])
