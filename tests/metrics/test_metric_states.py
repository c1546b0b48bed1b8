"""How the metrics live with torchmetrics and with the loops that drive them."""

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import torch
import torchmetrics
from torch import Tensor

from nearwise.metrics import ClosestIsPositiveAccuracy, MedianDistances, MetricState
from nearwise.metrics.base import EmbeddingMetric
from nearwise.metrics.state import declare_states

E = torch.tensor([[0.0, 0], [1, 0], [3, 0], [10, 0], [11, 0]])
L = torch.tensor([0, 0, 1, 1, 2])
BOTH = pytest.mark.parametrize("kind", [ClosestIsPositiveAccuracy, MedianDistances])
DEVICES = ["meta", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


class Declared(torchmetrics.Metric):
    """Declares nothing itself; subclasses do by annotation."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        declare_states(self)

    def update(self):
        """Do nothing."""

    def compute(self):
        """Do nothing."""


def value(metric):
    result = metric.compute()
    return {k: v.item() for k, v in result.items()} if isinstance(result, dict) else result.item()


@pytest.mark.rule("E-24")
def test_states_are_declared_by_annotation_over_the_class_and_its_bases():
    class Base(Declared):
        total: Annotated[Tensor, MetricState(default=0)]
        values: Annotated[list[Tensor], MetricState()]

    class Child(Base):
        mean: Annotated[Tensor, MetricState(dist_reduce_fx="mean", persistent=True)]
        kept: Annotated[list[Tensor], MetricState(dist_reduce_fx=None)]
        undeclared: Annotated[Tensor, "a note"]
        ranges: Annotated[Tensor, MetricState(default=torch.ones(2))]

    metric = Child()
    assert set(metric.metric_state) == {"total", "values", "mean", "kept", "ranges"}
    assert metric.total.dtype == torch.int64
    assert metric.mean.item() == 0.0
    assert metric.ranges.tolist() == [1, 1]
    assert metric.values == []
    reductions = {name: getattr(fx, "__name__", fx) for name, fx in metric._reductions.items()}
    assert reductions == {
        "total": "dim_zero_sum",
        "values": "dim_zero_cat",
        "mean": "dim_zero_mean",
        "kept": None,
        "ranges": "dim_zero_sum",
    }
    assert list(metric.state_dict()) == ["mean"]


@pytest.mark.rule("E-24", "E-0")
@pytest.mark.parametrize(
    ("kind", "mark", "message"),
    [
        (int, MetricState(), "needs a default"),
        (list[Tensor], MetricState(default=[1]), "must be empty"),
        (Tensor, MetricState(default="0"), "must be a tensor"),
    ],
)
def test_a_state_without_a_usable_default_is_refused(kind, mark, message):
    class Wrong(Declared):
        state: Annotated[kind, mark]

    with pytest.raises(ValueError, match=message):
        Wrong()


@pytest.mark.rule("E-0")
@BOTH
def test_states_are_tensors_and_lists_with_reductions(kind):
    metric = kind(cross_batch_memory_size=4)
    for name, fx in metric._reductions.items():
        expected = {"memory_": None, "correct": "dim_zero_sum", "total": "dim_zero_sum"}
        prefix = "memory_" if name.startswith("memory_") else name
        assert getattr(fx, "__name__", fx) == expected.get(prefix, "dim_zero_cat")


@pytest.mark.rule("E-13")
@BOTH
@pytest.mark.parametrize("device", DEVICES)
def test_a_filled_memory_moves_to_another_device(kind, device):
    metric = kind(cross_batch_memory_size=4)
    metric.update(E, L)
    metric.to(device)
    for state in metric.metric_state.values():
        for tensor in state if isinstance(state, list) else [state]:
            assert tensor.device.type == device
    if device != "meta":
        metric.update(E.to(device), L.to(device))
        on_cpu = kind(cross_batch_memory_size=4)
        on_cpu.update(E, L)
        on_cpu.update(E, L)
        assert value(metric) == value(on_cpu)
        metric.to("cpu")
        metric.update(E, L)


@BOTH
@pytest.mark.parametrize("size", [None, 4])
def test_a_copy_or_a_pickle_goes_on_by_itself(kind, size):
    metric = kind(cross_batch_memory_size=size)
    metric.update(E, L)
    before = value(metric)
    for other in (metric.clone(), pickle.loads(pickle.dumps(metric))):
        assert value(other) == before
        other.update(E * 2, L)
        assert value(metric) == before
        other.reset()
        other.update(E, L)
        assert value(other) == before


@pytest.mark.rule("E-0")
def test_the_node_is_neither_copied_nor_pickled_nor_a_part_of_the_metric():
    node = torch.nn.Linear(2, 2)
    node.cross_batch_memory_size = 4
    metric = ClosestIsPositiveAccuracy(node=node)
    metric.persistent(True)
    assert list(metric.parameters()) == []
    assert not any("weight" in name for name in metric.state_dict())
    assert metric.clone().node is node
    assert pickle.loads(pickle.dumps(metric)).node is None


@BOTH
def test_state_dict_restores_a_metric_with_its_memory(kind):
    metric = kind(cross_batch_memory_size=4)
    metric.persistent(True)
    metric.update(E, L)
    restored = kind(cross_batch_memory_size=4)
    restored.load_state_dict(metric.state_dict())
    for m in (metric, restored):
        m.update(E[:2] + 0.5, L[:2])
    assert value(restored) == value(metric)
    assert torch.equal(restored.memory_embeddings, metric.memory_embeddings)


@BOTH
def test_half_precision_of_a_model_leaves_the_counts(kind):
    metric = kind(cross_batch_memory_size=4).half()
    metric.update(E, L)
    metric.to(torch.float16)
    metric.update(E.half(), L)
    metric.update(E.half(), L)
    assert metric.memory_labels.dtype == torch.int64


def test_metrics_of_different_memory_stay_apart_in_a_collection():
    collection = torchmetrics.MetricCollection(
        {
            "four": ClosestIsPositiveAccuracy(cross_batch_memory_size=4),
            "six": ClosestIsPositiveAccuracy(cross_batch_memory_size=6),
            "batch": ClosestIsPositiveAccuracy(),
            "medians": MedianDistances(),
        }
    )
    alone = {name: metric.clone() for name, metric in collection.items()}
    for rows in ([0, 1], [2, 3], [4, 0, 1], [2, 2]):
        collection.update(E[rows], L[rows])
        for metric in alone.values():
            metric.update(E[rows], L[rows])
    together = collection.compute()
    for name in ("four", "six", "batch"):
        assert together[name].item() == pytest.approx(value(alone[name]), nan_ok=True)
    assert together["MedianDistance"].item() == value(alone["medians"])["MedianDistance"]
    assert not together["six"].isnan()


class Embedder(torch.nn.Module):
    """A model in the shape of a Lightning module, with its metrics as submodules."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 2, bias=False)
        self.step_accuracy = ClosestIsPositiveAccuracy()
        self.accuracy = ClosestIsPositiveAccuracy(cross_batch_memory_size=4)
        self.medians = MedianDistances()

    def validation_step(self, batch):
        embeddings = self.net(batch[0])
        self.accuracy.update(embeddings, batch[1])
        self.medians.update(embeddings, batch[1])
        return self.step_accuracy(embeddings, batch[1])

    def on_validation_epoch_end(self):
        logged = {"accuracy": self.accuracy.compute(), **self.medians.compute()}
        for metric in (self.accuracy, self.medians, self.step_accuracy):
            metric.reset()
        return {name: float(v) for name, v in logged.items()}


def test_a_lightning_style_loop_logs_the_same_every_epoch():
    model = Embedder().to("cpu")
    torch.nn.init.eye_(model.net.weight)
    epochs = []
    for _ in range(2):
        model.eval()
        steps = [model.validation_step(batch).item() for batch in [(E, L), (E[:2], L[:2]), (E, L)]]
        epochs.append((steps, model.on_validation_epoch_end()))
    assert epochs[0] == epochs[1]
    assert epochs[0][0] == [0.5, 1.0, 0.5]
    assert epochs[0][1]["MedianDistance"] == 7
    # Metrics are not in the checkpoint, and what the loop ran leaves no graph behind.
    assert list(model.state_dict()) == ["net.weight"]
    assert model.net.weight.grad is None


@pytest.mark.rule("E-20", "E-0")
def test_a_trainer_that_fills_arguments_by_name_can_drive_both():
    """The pattern of luxonis-train: arguments chosen by parameter name, the result a scalar or a dict."""

    class Head(torch.nn.Module):
        cross_batch_memory_size = 4

    packet = {"predictions": E, "embeddings": E, "target": L}
    head, main, sub = Head(), {}, {}
    for metric in (ClosestIsPositiveAccuracy(node=head), MedianDistances(node=head)):
        names = inspect.signature(metric.update).parameters
        metric.update(**{name: packet[name] for name in names})
        result = metric.compute()
        if isinstance(result, dict):
            sub.update(result)
        else:
            main[type(metric).__name__] = result
    assert list(main) == ["ClosestIsPositiveAccuracy"]
    assert len(sub) == 4
    assert all(v.ndim == 0 for v in [*main.values(), *sub.values()])


@pytest.mark.rule("E-22", "E-0")
def test_two_processes_agree_on_the_value_over_all_their_batches(tmp_path):
    worker = Path(__file__).with_name("gloo_worker.py")
    processes = [
        subprocess.Popen([sys.executable, worker, str(rank), tmp_path / "store"], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    first, second = (json.loads(process.communicate(timeout=200)[0]) for process in processes)
    assert first == second

    alone = []
    for kind in (ClosestIsPositiveAccuracy, MedianDistances):
        metric = kind()
        for rows in ([0, 1, 2, 3, 4], [1, 2, 3], [2, 3]):
            metric.update(E[rows], L[rows])
        alone.append(value(metric))
        metric.update(E, L)
        metric.update(E, L)
        alone.append(value(metric))
    assert first[:4] == alone
    # The memories hold 3 and 2 rows and stay apart; what they scored is summed: both end with rows 2, 3, 4.
    third = ClosestIsPositiveAccuracy(cross_batch_memory_size=3)
    for rows in ([0, 1, 2, 3, 4], [1, 2, 3]):
        third.update(E[rows], L[rows])
    assert first[4] == value(third)
    third.update(E, L)
    correct, total = int(third.correct), int(third.total)
    second_rank = ClosestIsPositiveAccuracy(cross_batch_memory_size=3)
    second_rank.update(E, L)
    # One process has float64 distances, the other float32 ones or none.
    mixed, late = MedianDistances(), MedianDistances()
    mixed.update(E.double() / 3, L)
    mixed.update(E.double(), L)
    late.update(E.double() / 3, L)
    assert first[6:] == [value(mixed), value(late)]
    assert first[5] == pytest.approx((correct + int(second_rank.correct)) / (total + int(second_rank.total)))


def test_an_embedding_metric_of_ones_own_takes_the_memory():
    class Rows(EmbeddingMetric):
        rows: Annotated[Tensor, MetricState(default=0)]

        def update(self, embeddings, target):
            scored = self.remember(embeddings, target)
            self.rows += 0 if scored is None else len(scored[0])

        def compute(self):
            return self.rows

    metric = Rows(cross_batch_memory_size=3)
    metric.update(E[:2], L[:2])
    metric.update(E, L)
    assert metric.compute() == 3


@pytest.mark.rule("E-0")
@pytest.mark.parametrize("metric", [ClosestIsPositiveAccuracy, MedianDistances])
def test_other_arrays_are_named(metric):
    with pytest.raises(TypeError, match="embeddings must be a torch tensor, got ndarray"):
        metric().update(E.numpy(), L)
    with pytest.raises(TypeError, match="target must be a torch tensor, got list"):
        metric().update(E, L.tolist())
