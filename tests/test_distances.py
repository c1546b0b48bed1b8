"""The distances by their documented values, on NumPy arrays and torch tensors alike."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from conftest import numpy_array
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance
from nearwise.errors import ContractError

INF = float("inf")
Q = [[3, 4], [0, 2]]
R = [[0, 0], [3, 0], [6, 8]]
PLAIN = LpDistance(normalize_embeddings=False)
HALVES = ("float16", "bfloat16")


def same(got, want, dtype="float32"):
    got = got.numpy() if hasattr(got, "numpy") else got
    assert str(got.dtype) == dtype
    np.testing.assert_array_equal(got, np.asarray(want).astype(dtype))


@pytest.mark.rule("D-1")
def test_similarities_are_inverted_and_distances_are_not():
    assert CosineSimilarity().is_inverted is True
    assert DotProductSimilarity().is_inverted is True
    assert LpDistance().is_inverted is False
    assert SNRDistance().is_inverted is False


@pytest.mark.rule("D-2")
def test_the_call_gives_every_query_against_every_reference(make):
    same(PLAIN(make(Q), make(R)), [[5, 4, 5], [2, 3.6055513, 8.485281]])


@pytest.mark.rule("D-2")
def test_without_a_reference_the_query_meets_itself(make):
    same(PLAIN(make(Q)), PLAIN(make(Q), make(Q)).tolist())
    assert PLAIN(make(Q)).shape == (2, 2)


@pytest.mark.rule("D-3")
def test_the_pair_form_is_row_against_row_and_exact(make):
    same(PLAIN.pairwise(make(Q), make(R)[1:]), [4, 8.485281])


@pytest.mark.rule("D-3")
def test_the_pair_form_builds_no_matrix():
    rows = np.zeros((200_000, 4), dtype=np.float32)  # the matrix would take 160 GB
    assert PLAIN.pairwise(rows, rows).shape == (200_000,)


@pytest.mark.rule("D-4")
def test_the_pair_form_normalises(make):
    same(CosineSimilarity().pairwise(make(Q), make(R)[1:]), [0.6, 0.8])
    same(LpDistance().pairwise(make(Q), make(R)[1:]), [0.8944272, 0.6324555])


@pytest.mark.rule("D-5")
def test_the_pair_form_takes_the_power(make):
    same(LpDistance(normalize_embeddings=False, power=2).pairwise(make(Q), make(R)[1:]), [16, 72])


@pytest.mark.rule("D-6")
@pytest.mark.parametrize(
    "distance",
    [
        LpDistance(),
        LpDistance(p=1),
        LpDistance(p=3, power=3),
        CosineSimilarity(),
        DotProductSimilarity(),
        SNRDistance(),
    ],
    ids=repr,
)
def test_the_pair_form_is_the_diagonal_of_the_matrix(distance, make, rng):
    x, y = make(rng.standard_normal((9, 33))), make(rng.standard_normal((9, 33)))
    diagonal = np.asarray(distance(x, y)).diagonal()
    np.testing.assert_array_equal(np.asarray(distance.pairwise(x, y)), diagonal)


@pytest.mark.rule("D-6")
@pytest.mark.parametrize("p", [0.5, 1, 2, 3, INF])
def test_a_row_is_at_distance_zero_from_itself(p, make, rng):
    x = make(rng.standard_normal((9, 33)) * 1e3)
    for normalize in (True, False):
        distance = LpDistance(normalize_embeddings=normalize, p=p)
        assert (distance.pairwise(x, x) == 0).all()
        assert (np.asarray(distance(x)).diagonal() == 0).all()
    same(PLAIN.pairwise(make([[1, 2]]), make([[1, 2]])), [0])


@pytest.mark.rule("D-7")
@pytest.mark.parametrize(
    ("p", "normalize", "want"),
    [
        (1, False, [[7, 4, 7], [2, 5, 12]]),
        (INF, False, [[4, 4, 4], [2, 3, 6]]),
        (1, True, [[1, 8 / 7, 0], [1, 2, 6 / 7]]),
    ],
)
def test_p_picks_the_norm_of_the_distance_and_of_the_rows(p, normalize, want, make):
    same(LpDistance(normalize_embeddings=normalize, p=p)(make(Q), make(R)), want)


@pytest.mark.rule("D-8")
def test_power_raises_each_value(make):
    squared = LpDistance(normalize_embeddings=False, power=2)
    same(squared(make(Q), make(R)), [[25, 16, 25], [4, 13, 72]])
    same(DotProductSimilarity(normalize_embeddings=False, power=2)(make(Q), make(R)), [[0, 81, 2500], [0, 0, 256]])


@pytest.mark.rule("D-8")
def test_power_is_taken_before_the_one_rounding():
    x, y = np.zeros((1, 6), dtype=np.float32), np.ones((1, 6), dtype=np.float32)
    cubed = LpDistance(normalize_embeddings=False, power=3).pairwise(x, y)
    root = np.sqrt(np.float64(6))
    rounded_first = np.float32(root) * np.float32(root) * np.float32(root)
    assert cubed[0] == np.float32(root * root * root) != rounded_first


@pytest.mark.rule("D-9")
def test_the_default_normalises_rows(make):
    same(LpDistance()(make(Q), make(R)), [[1, 0.8944272, 0], [1, 1.4142135, 0.6324555]])


@pytest.mark.rule("D-10")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_zero_row_normalises_to_zero(dtype, make):
    zero, rows = make([[0, 0]], dtype), make(R, dtype)
    returned = "float64" if dtype == "float64" else "float32"
    same(CosineSimilarity()(zero, rows), [[0, 0, 0]], returned)
    same(LpDistance()(zero, rows), [[0, 1, 1]], returned)
    same(DotProductSimilarity(normalize_embeddings=True)(zero, rows), [[0, 0, 0]], returned)


@pytest.mark.rule("D-11")
def test_cosine_is_the_product_of_unit_rows(make):
    same(CosineSimilarity()(make(Q), make(R)), [[0, 0.6, 1], [0, 0, 0.8]])


@pytest.mark.rule("D-12")
def test_the_dot_product_is_plain_by_default(make):
    same(DotProductSimilarity()(make(Q), make(R)), [[0, 9, 50], [0, 0, 16]])


@pytest.mark.rule("D-13")
def test_snr_is_a_ratio_of_variances(make):
    plain = SNRDistance(normalize_embeddings=False)
    same(plain(make(Q), make(R)), [[1, 16, 1], [1, 6.25, 0]])
    same(plain.pairwise(make(Q), make(R)[1:]), [16, 0])
    # The documented 36 and 0.64 are of exact unit rows; rows divided in float64 round within it.
    np.testing.assert_allclose(np.asarray(SNRDistance()(make(Q), make(R))), [[1, 36, 0], [1, 4, 0.64]], rtol=1e-6)
    assert (np.asarray(plain(make(Q))) != np.asarray(plain(make(Q))).T).any()


@pytest.mark.rule("D-14")
@pytest.mark.parametrize("value", [1, 0.1, 1e9 + 0.1])
def test_snr_of_a_constant_query_divides_by_zero(value, make):
    query, rows = make([[value] * 7]), make([[value] * 7, [3] * 7, [0, 2, 0, 0, 0, 0, 0]])
    got = np.asarray(SNRDistance(normalize_embeddings=False)(query, rows))
    np.testing.assert_array_equal(got, np.array([[np.nan, np.nan, np.inf]], dtype=np.float32))


@pytest.mark.rule("D-15")
@pytest.mark.parametrize("shape", [(2,), (2, 2, 2), ()])
def test_embeddings_have_two_dimensions(shape, make):
    for call in (PLAIN, PLAIN.pairwise, CosineSimilarity()):
        with pytest.raises(ValueError, match=r"2 dimensions .*got shape"):
            call(make(np.zeros(shape)), make(Q))
        with pytest.raises(ValueError, match=r"2 dimensions .*got shape"):
            call(make(Q), make(np.zeros(shape)))


@pytest.mark.rule("D-16")
def test_sides_that_do_not_fit_are_errors_and_never_broadcast(make):
    for distance in (PLAIN, CosineSimilarity(), DotProductSimilarity(), SNRDistance()):
        with pytest.raises(ValueError, match="same number of rows, got 2 and 3"):
            distance.pairwise(make(Q), make(R))
        with pytest.raises(ValueError, match="same number of rows, got 2 and 1"):
            distance.pairwise(make(Q), make(R)[:1])
        for call in (distance, distance.pairwise):
            with pytest.raises(ValueError, match="same number of features, got 2 and 1"):
                call(make(Q), make(Q)[:, :1])
            with pytest.raises(ValueError, match="same dtype, got float32 and float64"):
                call(make(Q), make(Q, "float64"))
            with pytest.raises(ValueError, match="same dtype, got float16 and bfloat16"):
                call(make(Q, "float16"), make(Q, "bfloat16"))


@pytest.mark.rule("D-17")
def test_empty_sides_give_empty_values(make):
    empty = make(np.zeros((0, 2)))
    for distance in (PLAIN, CosineSimilarity(), DotProductSimilarity(), SNRDistance()):
        assert distance(empty, make(R)).shape == (0, 3)
        assert distance(make(R), empty).shape == (3, 0)
        assert distance.pairwise(empty, empty).shape == (0,)


@pytest.mark.rule("D-18", "G-6")
@pytest.mark.parametrize("distance", [LpDistance, SNRDistance])
def test_a_distance_cannot_be_declared_a_similarity(distance):
    with pytest.raises(ContractError, match="is_inverted must be False"):
        distance(is_inverted=True)
    assert issubclass(ContractError, ValueError)
    assert issubclass(ContractError, AssertionError)
    assert distance(is_inverted=False) == distance()


@pytest.mark.rule("D-18", "G-6")
def test_unknown_and_positional_parameters_are_type_errors():
    with pytest.raises(TypeError):
        CosineSimilarity(normalize_embeddings=True)
    with pytest.raises(TypeError):
        LpDistance(False)
    with pytest.raises(TypeError):
        LpDistance(metric=2)


@pytest.mark.rule("G-6")
@pytest.mark.parametrize(("name", "value"), [("p", 0), ("p", -1), ("p", float("nan")), ("power", 0), ("power", INF)])
def test_parameters_out_of_range_name_themselves(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        LpDistance(**{name: value})


@pytest.mark.rule("G-6")
@pytest.mark.parametrize(("name", "value"), [("p", "2"), ("p", True), ("power", None)])
def test_parameters_of_another_type_name_themselves(name, value):
    with pytest.raises(TypeError, match=f"^{name} must be a number"):
        LpDistance(**{name: value})


@pytest.mark.rule("G-1", "D-2")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("distance", [PLAIN, LpDistance(), CosineSimilarity(), DotProductSimilarity(), SNRDistance()])
def test_float64_stays_and_everything_else_returns_float32(dtype, distance, make):
    returned = "float64" if dtype == "float64" else "float32"
    for values in (distance(make(Q, dtype), make(R, dtype)), distance.pairwise(make(Q, dtype), make(Q, dtype))):
        assert str(values.dtype).removeprefix("torch.") == returned


@pytest.mark.rule("G-1")
def test_half_precision_does_not_overflow(make):
    """https://github.com/pytorch/pytorch/issues/136748: distances in half precision overflow or are refused."""
    squared = LpDistance(normalize_embeddings=False, power=2)
    for dtype in HALVES:
        same(squared(make([[300, 0]], dtype), make([[0, 0]], dtype)), [[90000.0]])


@pytest.mark.rule("G-6")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "complex64"])
def test_elements_that_are_no_floats_are_type_errors(dtype, make):
    for distance in (PLAIN, CosineSimilarity(), DotProductSimilarity(), SNRDistance()):
        with pytest.raises(TypeError, match=f"must have dtype .*got {dtype}"):
            distance(make(Q, dtype), make(R, dtype))


def test_distances_compare_print_and_hash_by_their_parameters():
    assert LpDistance(p=2) == LpDistance(p=2.0)
    assert LpDistance(p=2) != LpDistance(p=1)
    assert LpDistance() != SNRDistance()
    assert len({CosineSimilarity(), CosineSimilarity(power=1), CosineSimilarity(power=2)}) == 2
    assert repr(LpDistance(p=1)) == "LpDistance(normalize_embeddings=True, p=1, power=1)"
    with pytest.raises(AttributeError):
        LpDistance().p = 1


SPECS = [
    (
        LpDistance(normalize_embeddings=normalize, p=p, power=power),
        oracle.Spec("lp", p, power, p if normalize else None),
    )
    for normalize in (False, True)
    for p in (0.5, 1, 1.5, 2, 3, INF)
    for power in (-1, 0.5, 1, 2, 3, 1.7)
] + [
    (SNRDistance(normalize_embeddings=normalize, power=power), oracle.Spec("snr", 2, power, 2 if normalize else None))
    for normalize in (False, True)
    for power in (1, 2)
]
SPECS += [
    (
        DotProductSimilarity(normalize_embeddings=normalize, power=power),
        oracle.Spec("dot", 2, power, 2 if normalize else None),
    )
    for normalize in (False, True)
    for power in (1, 2, 3)
]
SPECS += [(CosineSimilarity(power=power), oracle.Spec("cosine", 2, power)) for power in (1, 2, 3)]


@pytest.mark.rule("D-7", "D-8", "D-9", "D-11", "D-12", "D-13")
@pytest.mark.parametrize(("distance", "spec"), SPECS, ids=[repr(distance) for distance, _ in SPECS])
def test_values_are_the_documented_formula(distance, spec, rng):
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x, y = (numpy_array(rng.standard_normal((rows, 37)), dtype) for rows in (5, 7))
        # No two libraries agree on a general power; a float64 result shows the difference, taken to the outer power.
        ulps = 0 if spec.is_bitwise else 1 if dtype != "float64" else 1 + 2 * abs(spec.power)
        oracle.assert_same(distance(x, y), oracle.matrix(spec, x, y), ulps=ulps)
        oracle.assert_same(distance.pairwise(x, y[:5]), oracle.pairwise(spec, x, y[:5]), ulps=ulps)
