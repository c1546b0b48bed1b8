"""A prepared index gives the bits of a plain search, and its files are whole or refused."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import nearwise
import oracle
from conftest import numpy_array, torch_tensor
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance
from nearwise.evaluation import CustomKNN

DISTANCES = ["euclidean", "sqeuclidean", "cosine", "dot", "snr", "manhattan", "chebyshev"]


def _rows(rng: np.random.Generator, n: int = 3000, features: int = 24) -> np.ndarray:
    return rng.standard_normal((n, features)).astype(np.float32)


def _assert_same(got, want):
    oracle.assert_same(got.distances, want.distances)
    oracle.assert_same(got.indices, want.indices)


@pytest.mark.rule("N-1")
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_index_gives_the_bits_of_a_plain_search(distance, dtype, make, rng):
    reference = make(_rows(rng), dtype)
    index = nearwise.KNNIndex(reference, distance=distance)
    for queries in (1, 9):
        query = make(_rows(rng, queries), dtype)
        for k in (1, 10, 200, 3000):
            want = nearwise.knn(query, reference, k, distance=distance, method="direct")
            _assert_same(index.search(query, k), want)


def test_codes_are_used_and_reported(rng):
    index = nearwise.KNNIndex(_rows(rng))
    if nearwise.KNNIndex(_rows(rng)).nbytes == 0:
        pytest.skip("the portable level prepares nothing")
    found = index.search(_rows(rng, 4), 5, stats=True)
    assert found.stats.method == "i8"
    assert 0 < found.stats.per_query < 300
    assert index.nbytes < 3000 * (24 * 4)
    assert index.search(_rows(rng, 4), 5, stats=True, method="direct").stats.method == "direct"
    assert nearwise.KNNIndex(_rows(rng), distance="manhattan").nbytes == 0


def test_data_that_8_bits_do_not_fit_are_searched_as_they_are(rng):
    reference = rng.standard_t(1, (4000, 40)).astype(np.float32)
    index = nearwise.KNNIndex(reference)
    assert index.nbytes == 0
    _assert_same(index.search(reference[:5], 7), nearwise.knn(reference[:5], reference, 7))


@pytest.mark.rule("K-4")
@pytest.mark.parametrize("distance", ["euclidean", "dot"])
def test_the_rows_may_include_the_query(distance, rng):
    reference = _rows(rng)
    reference[5] = reference[2]
    index = nearwise.KNNIndex(reference, distance=distance)
    for threads in (1, 3):
        got = index.search(reference[:50], 4, ref_includes_query=True, threads=threads)
        _assert_same(got, nearwise.knn(reference[:50], reference, 4, distance=distance, ref_includes_query=True))


@pytest.mark.rule("N-2")
def test_rows_that_are_added_count_as_if_they_had_been_there(make, rng):
    rows = _rows(rng, 3100)
    index = nearwise.KNNIndex(make(rows[:2049]))
    for start, stop in ((2049, 2050), (2050, 2050), (2050, 3100)):
        index.add(make(rows[start:stop]))
    assert len(index) == 3100
    _assert_same(index.search(make(rows[::50]), 9), nearwise.knn(make(rows[::50]), make(rows), 9))
    with pytest.raises(ValueError, match="rows must be like those of the index, float32 with 24 features"):
        index.add(make(rows[:3], "float64"))
    assert len(index) == 3100


@pytest.mark.rule("G-3")
def test_nan_is_refused_or_ranked_last(make, rng):
    rows = _rows(rng)
    rows[2500, 3] = np.nan
    with pytest.raises(ValueError, match=r"reference must not contain NaN .* row 2500"):
        nearwise.KNNIndex(make(rows))
    index = nearwise.KNNIndex(make(rows), nan_policy="last")
    query = make(rows[:3])
    _assert_same(index.search(query, 3000), nearwise.knn(query, make(rows), 3000, nan_policy="last"))
    _assert_same(index.search(query, 9), nearwise.knn(query, make(rows), 9, nan_policy="last"))
    clean = nearwise.KNNIndex(make(_rows(rng)))
    with pytest.raises(ValueError, match=r"query must not contain NaN .* row 0"):
        clean.search(make(rows[2500:2501]), 1)
    with pytest.raises(ValueError, match="must not contain NaN"):
        clean.add(make(rows[2500:2501]))
    assert len(clean) == 3000


@pytest.mark.rule("G-8", "K-1")
def test_it_is_a_knn_func(make, rng):
    rows = make(_rows(rng))
    index = nearwise.KNNIndex(rows)
    _assert_same(index(rows[:4], 3), nearwise.knn(rows[:4], rows, 3))
    _assert_same(index(rows[:4], 3, None, True), nearwise.knn(rows[:4], rows, 3, ref_includes_query=True))
    _assert_same(index(rows[:4], 2, rows[:6], False), nearwise.knn(rows[:4], rows[:6], 2))
    assert len(index) == 3000


@pytest.mark.rule("N-5")
def test_an_index_keeps_a_copy_of_memory_and_none_of_a_map(tmp_path, rng):
    rows = _rows(rng)
    index = nearwise.KNNIndex(rows)
    want = index.search(rows[:3].copy(), 4)
    query = rows[:3].copy()
    rows[:] = 0
    _assert_same(index.search(query, 4), want)
    np.save(tmp_path / "rows.npy", _rows(rng))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.shares_memory(nearwise.KNNIndex(mapped)._state[0].array, mapped)


def test_wrong_arguments_are_named(rng):
    rows = _rows(rng, 20)
    with pytest.raises(ValueError, match="reference must have at least one row"):
        nearwise.KNNIndex(rows[:0])
    with pytest.raises(TypeError, match="reference must be a NumPy array"):
        nearwise.KNNIndex([[1.0]])
    with pytest.raises(ValueError, match="nan_policy must be raise or last"):
        nearwise.KNNIndex(rows, nan_policy="first")
    with pytest.raises(TypeError, match="distance must be a built-in one"):
        nearwise.KNNIndex(rows, distance=type("Own", (LpDistance,), {})())
    index = nearwise.KNNIndex(rows)
    with pytest.raises(ValueError, match="k must be between 1 and 20"):
        index.search(rows[:2], 21)
    with pytest.raises(ValueError, match="same number of features"):
        index.search(rows[:, :3], 1)
    with pytest.raises(ValueError, match="dtype of the stored rows, float32, got float64"):
        index.search(rows.astype(float), 1)
    assert index.search(rows[:0], 3).distances.shape == (0, 3)


@pytest.mark.parametrize(
    "distance",
    [
        LpDistance(normalize_embeddings=False, p=2, power=2),
        LpDistance(p=1),
        LpDistance(normalize_embeddings=False, p=float("inf")),
        DotProductSimilarity(normalize_embeddings=True),
        CosineSimilarity(),
        SNRDistance(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_saved_index_loads_to_the_same_answers(distance, dtype, make, tmp_path, rng):
    index = nearwise.KNNIndex(make(_rows(rng, 300), dtype), distance=distance)
    path = tmp_path / "an.index"
    path.write_text("an earlier file")
    index.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["an.index"]
    loaded = nearwise.KNNIndex.load(str(path))
    assert loaded.distance == index.distance
    assert isinstance(loaded._state[0].array, np.memmap)
    query = make(_rows(rng, 3), dtype)
    want = index.search(query, 5)
    _assert_same(loaded.search(query, 5), want)
    loaded.add(make(_rows(rng, 3), dtype))
    loaded.save(path)
    assert len(nearwise.KNNIndex.load(path)) == 303


@pytest.mark.rule("N-4")
def test_a_file_with_any_byte_changed_or_cut_is_refused(tmp_path, rng):
    path, damaged = tmp_path / "an.index", tmp_path / "damaged"
    nearwise.KNNIndex(_rows(rng, 3, 2)).save(path)
    whole = path.read_bytes()
    # What lies between header and rows is never read.
    read = [i for i in range(len(whole)) if not whole.index(b'"}') + 1 < i < len(whole) - 24]
    for i in read:
        damaged.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(ValueError, match=r"\S+ must be "):
            nearwise.KNNIndex.load(damaged)
    for end in range(len(whole)):
        damaged.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"\S+ must be "):
            nearwise.KNNIndex.load(damaged)
    damaged.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="whole file"):
        nearwise.KNNIndex.load(damaged)
    damaged.write_bytes(whole[:16] + b"\x02" + whole[17:])
    with pytest.raises(ValueError, match="file of version 1, got version 2"):
        nearwise.KNNIndex.load(damaged)
    with pytest.raises(FileNotFoundError):
        nearwise.KNNIndex.load(tmp_path / "absent")


@pytest.mark.rule("N-3")
def test_a_save_that_fails_leaves_the_earlier_file(tmp_path, rng, monkeypatch):
    path = tmp_path / "an.index"
    nearwise.KNNIndex(_rows(rng, 3)).save(path)

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        nearwise.KNNIndex(_rows(rng, 5)).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["an.index"]
    assert len(nearwise.KNNIndex.load(path)) == 3


def test_the_rows_of_custom_knn_load_there_alone(tmp_path, rng):
    knn = CustomKNN(CosineSimilarity())
    knn.train(_rows(rng, 30))
    knn.save(tmp_path / "rows")
    with pytest.raises(ValueError, match="file with a distance"):
        nearwise.KNNIndex.load(tmp_path / "rows")
    nearwise.KNNIndex(_rows(rng, 20)).save(tmp_path / "an.index")
    knn.load(tmp_path / "an.index")
    assert knn(_rows(rng, 2), 20).indices.shape == (2, 20)


def test_custom_knn_follows_its_settings(rng):
    rows, query = _rows(rng), _rows(rng, 3)
    knn = CustomKNN("euclidean")
    knn.train(rows)
    knn(query, 3)
    knn.distance = "dot"
    _assert_same(knn(query, 3), nearwise.knn(query, rows, 3, distance="dot"))


def _indices(index, query):
    return index.search(query, 5).indices.tolist()


@pytest.mark.rule("N-6")
def test_copies_pickles_and_forks_answer_the_same(rng):
    rows = _rows(rng)
    index = nearwise.KNNIndex(rows, distance="cosine")
    want = _indices(index, rows[:3])
    other = copy.deepcopy(index)
    other.add(rows[:1])
    assert (len(index), len(other)) == (3000, 3001)
    assert _indices(pickle.loads(pickle.dumps(index)), rows[:3]) == want
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_indices, (index, rows[:3])) == want
    assert repr(index) == "KNNIndex(3000 rows, float32 with 24 features, distance=CosineSimilarity(power=1))"


@pytest.mark.rule("C-13")
def test_threads_may_search_while_rows_are_added(rng):
    rows = _rows(rng)
    index = nearwise.KNNIndex(rows[:2500])
    failures: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(20):
                found = index.search(rows[:2], 3)
                assert found.indices[:, 0].tolist() == [0, 1]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for start in range(2500, 3000, 100):
        index.add(rows[start : start + 100])
    for thread in threads:
        thread.join()
    assert not failures
    assert len(index) == 3000


def test_bfloat16_of_either_kind_is_one_thing(rng):
    rows = _rows(rng)
    index = nearwise.KNNIndex(torch_tensor(rows, "bfloat16"))
    got = index.search(numpy_array(rows[:3], "bfloat16"), 4)
    assert isinstance(got.indices, np.ndarray)
    oracle.assert_same(got.indices, index.search(torch_tensor(rows[:3], "bfloat16"), 4).indices)


def test_the_header_can_be_read_by_a_person(tmp_path, rng):
    nearwise.KNNIndex(_rows(rng, 3)).save(tmp_path / "an.index")
    text = (tmp_path / "an.index").read_bytes()
    header, _ = json.JSONDecoder().raw_decode(text[text.index(b"{") :].decode("latin-1"))
    assert (header["rows"], header["features"], header["dtype"]) == (3, 24, "float32")


@pytest.mark.rule("N-4")
def test_files_that_cannot_be_written_are_called_by_their_name(tmp_path, rng):
    index = nearwise.KNNIndex(_rows(rng, 3, 2))
    with pytest.raises(FileNotFoundError, match=r"nowhere'$"):
        index.save(tmp_path / "nowhere" / "rows.index")
    with pytest.raises(IsADirectoryError, match=rf"{tmp_path.name}'$"):
        index.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
