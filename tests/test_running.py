"""How a search runs: threads, forks, interrupts, progress, what it leaves alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import nearwise
import oracle
from conftest import numpy_array
from memory import HIGHEST
from nearwise.distances import LpDistance


def rows(count, features=16, seed=0):
    return numpy_array(np.random.default_rng(seed).standard_normal((count, features)))


def python(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 1000])
def test_any_number_of_threads_gives_the_same_bits(threads):
    # Enough work that more than one thread is used.
    query, reference = rows(300), rows(3000, seed=1)
    want = nearwise.knn(query, reference, 9, threads=1)
    got = nearwise.knn(query, reference, 9, threads=threads)
    oracle.assert_same(got.distances, want.distances)
    oracle.assert_same(got.indices, want.indices)


@pytest.mark.parametrize("value", ["1", " 3 ", ""])
def test_the_environment_says_how_many_threads(monkeypatch, value):
    monkeypatch.setenv("NEARWISE_NUM_THREADS", value)
    oracle.assert_same(nearwise.knn(rows(5), rows(9), 2).indices, nearwise.knn(rows(5), rows(9), 2, threads=1).indices)


@pytest.mark.rule("G-6")
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_a_wrong_number_in_the_environment_is_an_error_that_names_it(monkeypatch, value):
    monkeypatch.setenv("NEARWISE_NUM_THREADS", value)
    with pytest.raises(ValueError, match="NEARWISE_NUM_THREADS must be a positive integer"):
        nearwise.knn(rows(5), rows(9), 2)
    assert nearwise.knn(rows(5), rows(9), 2, threads=1).indices.shape == (5, 2)


def search_in_a_child(queue):
    queue.put(nearwise.knn(rows(300), rows(3000, seed=1), 5, threads=2).indices.tolist())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_searches_after_its_parent_did():
    """https://github.com/facebookresearch/faiss/issues/5206: hangs after a fork."""
    want = nearwise.knn(rows(300), rows(3000, seed=1), 5, threads=2).indices.tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=search_in_a_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == want
    finally:
        child.kill()
        child.join()


INTERRUPTED = """
    import numpy, nearwise
    rows = numpy.random.default_rng(0).standard_normal((60_000, 256))
    seen = [(0, 1)]
    def progress(*at):
        seen.append(at)
        print("running", flush=True)
    try:
        nearwise.knn(rows, rows, 10, distance={distance!r}, batch_size={batch_size}, progress=progress)
    except KeyboardInterrupt:
        done, total = seen[-1]
        print("stopped", done / total, flush=True)
    else:
        print("finished", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send there")
@pytest.mark.parametrize(("distance", "batch_size"), [("euclidean", None), ("chebyshev", None), ("cosine", 100)])
def test_control_c_stops_a_long_search_in_the_middle(distance, batch_size):
    """https://github.com/facebookresearch/faiss/issues/733, https://github.com/rapidfuzz/RapidFuzz/issues/133."""
    program = textwrap.dedent(INTERRUPTED.format(distance=distance, batch_size=batch_size))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read().split("\n")
    finally:
        child.kill()
        child.wait()
    word, share = rest[-2].split()
    assert word == "stopped"
    assert float(share) < 0.9


INTERRUPTED_DISTANCES = """
    import numpy, nearwise
    rows = numpy.random.default_rng(0).standard_normal(({rows}, 256))
    print("running", flush=True)
    try:
        nearwise.distances.LpDistance(p=2.5, normalize_embeddings=False).{call}
    except KeyboardInterrupt:
        print("stopped", flush=True)
    else:
        print("finished", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send there")
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("rows", "call"), [(5000, "__call__(rows)"), (400_000, "pairwise(rows, rows[::-1])")])
def test_control_c_stops_a_matrix_of_distances(rows, call, threads):
    program = textwrap.dedent(INTERRUPTED_DISTANCES.format(rows=rows, call=call))
    environment = {**os.environ, "NEARWISE_NUM_THREADS": threads}
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout.readline() == "running\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    finally:
        child.kill()
        child.wait()
    assert rest == "stopped\n"


@pytest.mark.rule("G-6")
@pytest.mark.parametrize("value", ["0", "two"])
def test_distances_read_the_number_of_threads_from_the_environment(monkeypatch, value):
    distance = nearwise.distances.LpDistance()
    query, reference = rows(50), rows(900, seed=1)
    want = distance(query, reference)
    monkeypatch.setenv("NEARWISE_NUM_THREADS", "3")
    oracle.assert_same(distance(query, reference), want)
    monkeypatch.setenv("NEARWISE_NUM_THREADS", value)
    with pytest.raises(ValueError, match="NEARWISE_NUM_THREADS must be a positive integer"):
        distance(query, reference)
    with pytest.raises(ValueError, match="NEARWISE_NUM_THREADS must be a positive integer"):
        distance.pairwise(query, query)


@pytest.mark.parametrize("backend", ["rust", "torch"])
@pytest.mark.parametrize(("queries", "references"), [(2, 3), (300, 3000)])
def test_progress_is_reported_to_a_callable_and_ends_at_all(queries, references, backend):
    if backend == "torch":
        pytest.importorskip("torch")
    seen = []
    query, reference = rows(queries), rows(references, seed=1)
    nearwise.knn(query, reference, 3, backend=backend, progress=lambda done, total: seen.append((done, total)))
    assert all(0 <= done <= total for done, total in seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_progress_of_a_users_distance_counts_query_rows():
    def distance(query, reference):
        return query @ reference.T

    distance.is_inverted = True
    seen = []
    nearwise.knn(rows(5), rows(9), 2, distance=distance, batch_size=2, progress=lambda *at: seen.append(at))
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_an_error_of_the_progress_callable_comes_through():
    def distance(query, reference):
        return query @ reference.T

    distance.is_inverted = True

    def stop(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        nearwise.knn(rows(5), rows(9), 2, distance=distance, progress=stop)


def test_a_progress_bar_is_written_to_stderr_on_request_only(capfd):
    nearwise.knn(rows(5), rows(9), 2)
    assert capfd.readouterr() == ("", "")
    nearwise.knn(rows(5), rows(9), 2, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "searching: 100%" in err


@pytest.mark.rule("G-6")
def test_a_progress_bar_without_tqdm_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match=r"nearwise\[cli\]"):
        nearwise.knn(rows(5), rows(9), 2, progress=True)


@pytest.mark.rule("G-11")
def test_no_call_writes_the_environment():
    program = """
        import os, numpy, torch
        before = dict(os.environ)
        import nearwise, nearwise.evaluation
        from nearwise.distances import LpDistance
        rows = numpy.ones((3, 4), dtype=numpy.float32)
        nearwise.knn(rows, rows, 1, threads=2)
        nearwise.evaluation.CustomKNN(LpDistance())(torch.ones(3, 4), 1, torch.ones(3, 4))
        assert dict(os.environ) == before
    """
    done = python(program)
    assert done.returncode == 0, done.stderr


def test_importing_in_either_order_gives_the_same_answers():
    """https://github.com/facebookresearch/faiss/issues/2126: results change with the order of imports."""
    program = """
        import {first}
        import {second}
        import numpy, nearwise
        rows = numpy.random.default_rng(0).standard_normal((500, 32)).astype("float32")
        found = nearwise.knn(rows, rows, 5)
        print(found.distances.tobytes().hex(), found.indices.tobytes().hex())
    """
    answers = set()
    for first, second in (("torch", "nearwise"), ("nearwise", "torch")):
        done = python(textwrap.dedent(program).format(first=first, second=second))
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    assert len(answers) == 1


@pytest.mark.rule("C-9")
@pytest.mark.skipif(sys.platform != "linux", reason="counts in kilobytes on Linux")
def test_a_search_allocates_no_matrix():
    """https://github.com/OML-Team/open-metric-learning/issues/562: a matrix of all pairs."""
    program = """
        import numpy, nearwise
        query = numpy.random.default_rng(0).standard_normal((20_000, 4)).astype("float32")
        reference = numpy.random.default_rng(1).standard_normal((20_000, 4)).astype("float32")
        nearwise.knn(query[:10], reference, 1)
        before = highest()
        nearwise.knn(query, reference, 1)
        print((highest() - before) / 1024)
    """
    done = python(HIGHEST + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 300, "MB; the matrix would take 1600"


def test_rows_too_large_to_square_are_refused_by_name():
    big = np.full((2, 3), 1e200)
    with pytest.raises(ValueError, match=r"^reference must have rows with a norm below 1e153"):
        nearwise.knn(np.zeros((1, 3)), big, 1)
    with pytest.raises(ValueError, match=r"^query must have rows with a norm below 1e153"):
        nearwise.knn(big, np.zeros((1, 3)), 1)
    assert LpDistance(normalize_embeddings=False, p=1).pairwise(big[:1], big[1:]).tolist() == [0]
