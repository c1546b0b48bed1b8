"""Where FaissKNN searches when there are GPUs, told from the calls of a stand-in for Faiss."""

import logging
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from nearwise.evaluation import FaissKNN, faiss_knn


class Index:
    """Returns the first k rows, and remembers how many it has."""

    is_trained = True

    def __init__(self, features, ntotal=0):
        self.d, self.ntotal = features, ntotal

    def add(self, rows):
        self.ntotal += len(rows)

    def search(self, rows, k):
        return np.zeros((len(rows), k), dtype=np.float32), np.tile(np.arange(k), (len(rows), 1))


class GpuIndex(Index):
    def __init__(self, index, gpus):
        super().__init__(index.d, index.ntotal)
        self.gpus = gpus

    def getDevice(self):  # noqa: N802 - the name that Faiss has
        return self.gpus[0]


class Fake(ModuleType):
    def __init__(self, gpus=2, built_for_gpus=True):
        super().__init__("faiss")
        self.calls = []
        self.count = gpus
        self.IndexFlatL2 = Index
        if built_for_gpus:
            self.GpuIndex = GpuIndex

    def get_num_gpus(self):
        return self.count

    def index_cpu_to_gpus_list(self, index, gpus):
        self.calls.append(("to", gpus))
        return GpuIndex(index, gpus)

    def index_gpu_to_cpu(self, index):
        self.calls.append("to cpu")
        return Index(index.d, index.ntotal)


REFERENCE = np.zeros((3000, 2), dtype=np.float32)


@pytest.fixture
def install(monkeypatch):
    def put(**options):
        fake = Fake(**options)
        monkeypatch.setitem(sys.modules, "faiss", fake)
        return fake

    return put


@pytest.mark.rule("F-11", "F-12", "F-13")
@pytest.mark.parametrize("gpus", [[1], (0, 1), [0]])
def test_the_gpus_that_were_given_are_used_and_no_others(gpus, install):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/292: other GPUs were taken as well."""
    fake = install()
    found = FaissKNN(gpus=gpus)(REFERENCE[:4], 5, REFERENCE)
    assert fake.calls == [("to", list(gpus))]
    # The rows of an array reach any GPU as arrays.
    assert found.indices.tolist() == [[0, 1, 2, 3, 4]] * 4


@pytest.mark.rule("F-11")
@pytest.mark.parametrize(
    ("gpus", "options"), [(None, {}), ([0], {"gpus": 0}), ([0], {"built_for_gpus": False, "gpus": 2})]
)
def test_without_a_gpu_to_use_the_cpu_searches_and_nothing_warns(gpus, options, install, caplog):
    fake = install(**options)
    FaissKNN(gpus=gpus)(REFERENCE[:2], 2500, REFERENCE)
    assert fake.calls == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.rule("F-11", "X20")
@pytest.mark.parametrize(
    ("k", "includes", "refused"), [(2048, False, False), (2049, False, True), (2047, True, False), (2048, True, True)]
)
def test_a_k_above_the_limit_of_gpus_goes_to_the_cpu_with_one_warning(k, includes, refused, install, caplog):
    fake = install()
    FaissKNN(gpus=[0])(REFERENCE[:2], k, REFERENCE, includes)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == refused
    assert (fake.calls == []) == refused


@pytest.mark.rule("X20")
def test_another_failure_of_a_gpu_is_raised(install, monkeypatch, caplog):
    install()

    def out_of_memory(*given):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(GpuIndex, "search", out_of_memory)
    with pytest.raises(RuntimeError, match="out of memory"):
        FaissKNN(gpus=[0])(REFERENCE[:2], 3, REFERENCE)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


class Tensor:
    """What a search asks of rows on a GPU."""

    def __init__(self, number):
        self.device = f"cuda:{number}"
        self.given = SimpleNamespace(device=SimpleNamespace(index=number))


@pytest.mark.rule("F-11", "F-13")
def test_queries_on_a_gpu_use_all_visible_ones_unless_told(install):
    install(gpus=3)
    assert faiss_knn._place(Tensor(1), 5, None, Index(2)).gpus == (0, 1, 2)
    assert faiss_knn._place(Tensor(1), 5, [2], Index(2)).gpus == (2,)
    assert faiss_knn._place(Tensor(1), 2049, None, Index(2)) == (None, True)


@pytest.mark.rule("F-12")
def test_rows_on_another_gpu_than_the_index_go_by_the_cpu(install):
    install()
    for index in (Index(2), GpuIndex(Index(2), [0])):
        with faiss_knn._own_device(index, Tensor(1)) as direct:
            assert not direct


@pytest.mark.rule("F-12")
def test_rows_on_the_gpu_of_a_single_index_go_in_directly_in_its_context(install, monkeypatch):
    torch = pytest.importorskip("torch")
    install()
    entered, imported = [], []

    @contextmanager
    def device(which):
        entered.append(which)
        yield

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(faiss_knn, "import_module", imported.append)
    rows = Tensor(1)
    with faiss_knn._own_device(GpuIndex(Index(2), [1]), rows) as direct:
        assert direct
        assert entered == [rows.given.device]
    assert imported == ["faiss.contrib.torch_utils"]
