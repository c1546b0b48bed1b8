"""Arguments of a wrong type, numbers beyond what a machine has, and what is said of them."""

import numpy as np
import pytest

import nearwise
from nearwise import _arguments
from nearwise.distances import DotProductSimilarity, LpDistance, SNRDistance
from nearwise.evaluation import CustomKNN

ROWS = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)
HUGE = 10**30


class Negative:
    is_inverted = True

    def __call__(self, query, reference):
        return query @ reference.T


@pytest.mark.parametrize("distance", ["cosine", Negative()])
@pytest.mark.parametrize("backend", ["rust", "torch"])
def test_a_batch_larger_than_any_query_is_one_batch(distance, backend):
    if backend == "torch":
        pytest.importorskip("torch")
    got = nearwise.knn(ROWS, ROWS, 3, distance=distance, batch_size=HUGE, backend=backend)
    want = nearwise.knn(ROWS, ROWS, 3, distance=distance, backend=backend)
    np.testing.assert_array_equal(got.indices, want.indices)
    np.testing.assert_array_equal(got.distances, want.distances)


def test_a_search_object_takes_such_a_batch():
    got = CustomKNN("cosine", HUGE)(ROWS, 3, ROWS, False)[1]
    np.testing.assert_array_equal(got, nearwise.knn(ROWS, ROWS, 3, distance="cosine").indices)


@pytest.mark.parametrize("threads", [4097, 2**31, HUGE])
def test_more_threads_than_any_machine_has_are_refused_by_name(monkeypatch, threads):
    with pytest.raises(ValueError, match=f"^threads must be at most 4096, got {threads}$"):
        nearwise.knn(ROWS, ROWS, 3, threads=threads)
    with pytest.raises(ValueError, match=r"^threads must be at most 4096"):
        CustomKNN("cosine", threads=threads)
    monkeypatch.setenv("NEARWISE_NUM_THREADS", str(threads))
    with pytest.raises(ValueError, match=r"^NEARWISE_NUM_THREADS must be at most 4096"):
        nearwise.knn(ROWS, ROWS, 3)


@pytest.mark.rule("K-10")
def test_a_huge_k_is_a_value_error_that_names_it():
    with pytest.raises(ValueError, match=rf"^k must be between 1 and 9.*got {HUGE}$"):
        nearwise.knn(ROWS, ROWS, HUGE)


@pytest.mark.parametrize("value", ["False", "a", 1, 0, None, 1.0, np.int64(1), [True], np.array([True])])
def test_a_flag_is_a_truth_value(value):
    with pytest.raises(TypeError, match=r"^ref_includes_query must be a bool, got "):
        _arguments.checked_flag("ref_includes_query", value)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_of_numpys_is_one_too(value):
    assert _arguments.checked_flag("ref_includes_query", value) is bool(value)


@pytest.mark.parametrize("kind", [LpDistance, SNRDistance, DotProductSimilarity])
def test_the_flags_of_a_distance_are_truth_values(kind):
    with pytest.raises(TypeError, match=r"^normalize_embeddings must be a bool, got 'a'$"):
        kind(normalize_embeddings="a")
    assert kind(normalize_embeddings=np.False_).formula == kind(normalize_embeddings=False).formula


def test_is_inverted_is_a_truth_value():
    with pytest.raises(TypeError, match=r"^is_inverted must be a bool, got 'no'$"):
        LpDistance(is_inverted="no")
    given = Negative()
    given.is_inverted = "no"
    with pytest.raises(TypeError, match=r"^is_inverted of a distance must be a bool, got 'no'$"):
        CustomKNN(given)


def test_names_are_strings():
    for argument in ("backend", "method"):
        with pytest.raises(TypeError, match=f"^{argument} must be a name, got 1$"):
            nearwise.knn(ROWS, ROWS, 3, **{argument: 1})
        with pytest.raises(TypeError, match=rf"^{argument} must be a name, got \['auto'\]$"):
            nearwise.knn(ROWS, ROWS, 3, **{argument: ["auto"]})


@pytest.mark.rule("D-7")
def test_powers_beyond_float64_are_infinite_or_zero_as_documented():
    distance = LpDistance(normalize_embeddings=False, p=100)
    rows = np.array([[1.3e3], [1.1e3], [1.0], [5e-4]])
    assert distance.pairwise(rows, np.zeros((4, 1))).tolist() == [np.inf, pytest.approx(1.1e3), 1.0, 0.0]


@pytest.mark.rule("D-7")
@pytest.mark.parametrize(("p", "refused"), [(2, True), (1, False), (3, False)])
def test_rows_that_cannot_be_squared_are_refused_for_the_norm_of_squares(p, refused):
    big = np.full((2, 3), 1e160)
    distance = LpDistance(normalize_embeddings=False, p=p)
    if refused:
        with pytest.raises(ValueError, match=r"^reference must have rows with a norm below 1e153"):
            nearwise.knn(np.zeros((1, 3)), big, 1, distance=distance)
    else:
        assert nearwise.knn(big, big, 1, distance=distance).distances.tolist() == [[0.0], [0.0]]


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, for quantizing at all
def test_a_quantized_tensor_is_called_so():
    torch = pytest.importorskip("torch")
    given = torch.quantize_per_tensor(torch.from_numpy(ROWS), 0.1, 0, torch.qint8)
    with pytest.raises(TypeError, match=r"^query must not be quantized, got torch\.qint8"):
        nearwise.knn(given, given, 1)


def test_a_matrix_of_three_dimensions_is_described_as_a_matrix():
    def cube(query, reference):
        return (query @ reference.T)[None]

    cube.is_inverted = True
    want = r"^distance must return a matrix \(queries, references\) of shape \(9, 9\), got \(1, 9, 9\)$"
    with pytest.raises(ValueError, match=want):
        nearwise.knn(ROWS, ROWS, 1, distance=cube)


def test_an_object_of_a_script_is_named_by_its_type():
    class Mine:
        def __dlpack__(self, **keywords):
            return ROWS.__dlpack__()

        def __dlpack_device__(self):
            return ROWS.__dlpack_device__()

    Mine.__module__ = "__main__"
    with pytest.raises(TypeError, match=r"got .*Mine on cpu and numpy on cpu$"):
        nearwise.knn(Mine(), ROWS, 1)


@pytest.mark.rule("G-6")
@pytest.mark.parametrize("value", ["no", None, 1, np.array([True, False])])
def test_whether_the_reference_includes_the_query_is_a_truth_value(value):
    rows = np.eye(3)
    searches = (
        (nearwise.knn, (rows, rows, 1)),
        (nearwise.KNNIndex(rows).search, (rows, 1)),
        (CustomKNN("cosine"), (rows, 1, rows)),
    )
    for search, arguments in searches:
        with pytest.raises(TypeError, match="ref_includes_query must be a bool"):
            search(*arguments, ref_includes_query=value)


@pytest.mark.rule("G-6")
def test_a_nan_policy_of_another_type_is_a_type_error():
    for make in (lambda: nearwise.knn(np.eye(2), np.eye(2), 1, nan_policy=1), lambda: CustomKNN("dot", nan_policy=1)):
        with pytest.raises(TypeError, match="nan_policy must be raise or last, got 1"):
            make()
