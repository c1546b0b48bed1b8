import numpy as np
import pytest
import torch

from nearwise.metrics import MedianDistances, median_distances

E = torch.tensor([[0.0, 0], [1, 0], [3, 0], [10, 0], [11, 0]])
L = torch.tensor([0, 0, 1, 1, 2])
NAMES = ("all_distances", "closest_distances", "positive_distances", "closest_vs_positive_distances")
KEYS = (
    "MedianDistance",
    "MedianClosestDistance",
    "MedianClosestPositiveDistance",
    "MedianClosestVsClosestPositiveDistance",
)


def states(metric):
    return [[t.tolist() for t in getattr(metric, name)] for name in NAMES]


def medians(metric):
    return [metric.compute()[key].item() for key in KEYS]


@pytest.mark.rule("E-15", "E-20")
def test_four_sets_of_distances_are_collected():
    metric = MedianDistances()
    metric.update(E, L)
    assert states(metric) == [[[1, 3, 10, 11, 2, 9, 10, 7, 8, 1]], [[1, 1, 2, 1, 1]], [[1, 1, 7, 7]], [[0, 0, 5, 6]]]
    assert medians(metric) == [7, 1, 1, 0]
    assert tuple(metric.compute()) == KEYS


@pytest.mark.rule("E-16")
def test_the_median_of_an_even_number_is_the_lower_of_the_middle_two():
    metric = MedianDistances()
    metric.all_distances.append(torch.tensor([1.0, 4, 2, 3]))
    metric.update(E[:0], L[:0])
    assert metric.compute()["MedianDistance"].item() == 2


@pytest.mark.rule("E-17", "E-8")
def test_a_memory_collects_nothing_until_it_is_full_and_then_all_of_it():
    metric = MedianDistances(cross_batch_memory_size=4)
    for rows in ([0, 1], [2], [3], [4], [0, 1, 2, 3, 4]):
        metric.update(E[rows], L[rows])
    assert [len(t) for t in metric.all_distances] == [6, 6, 6]
    assert all(len(getattr(metric, name)) == 3 for name in NAMES)
    assert medians(metric) == [7, 1, 7, 5]


@pytest.mark.rule("E-17", "E-16")
def test_medians_are_over_all_batches_together():
    generator = np.random.default_rng(3)
    metric, collected = MedianDistances(), [[], [], [], []]
    for rows in (5, 30, 17):
        x = generator.normal(size=(rows, 3)).astype(np.float32)
        y = generator.integers(0, 8, rows)
        metric.update(torch.from_numpy(x), torch.from_numpy(y))
        d = np.sqrt(((x[:, None].astype(np.float64) - x[None]) ** 2).sum(-1)).astype(np.float32)
        collected[0] += list(d[np.triu_indices(rows, 1)])
        np.fill_diagonal(d, np.inf)
        closest = d.min(1)
        positive = np.where(y[:, None] == y[None], d, np.inf).min(1)
        partnered = np.isfinite(positive)
        collected[1] += list(closest)
        collected[2] += list(positive[partnered])
        collected[3] += list((positive - closest)[partnered])
    assert medians(metric) == [pytest.approx(sorted(c)[(len(c) - 1) // 2], rel=1e-6) for c in collected]


@pytest.mark.rule("E-15")
def test_distances_computed_in_blocks_are_the_same(monkeypatch):
    torch.manual_seed(0)
    rows, labels = torch.randn(37, 5), torch.randint(0, 12, (37,))
    whole = median_distances._distances(rows, labels)
    monkeypatch.setattr(median_distances, "_BLOCK", 37 * 5)
    for one, other in zip(whole, median_distances._distances(rows, labels), strict=True):
        assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))


@pytest.mark.rule("E-18")
def test_without_values_a_median_is_nan():
    metric = MedianDistances()
    metric.update(E, torch.arange(5))
    values = medians(metric)
    assert values[:2] == [7, 1]
    assert np.isnan(values[2:]).all()
    metric.reset()
    metric.update(E[:0], L[:0])
    assert np.isnan(medians(metric)).all()


@pytest.mark.rule("E-19")
def test_an_embedding_alone_contributes_nothing():
    metric = MedianDistances()
    metric.update(E[:1], L[:1])
    assert states(metric) == [[[]], [[]], [[]], [[]]]
    assert np.isnan(medians(metric)).all()
    metric.update(E, L)
    assert medians(metric) == [7, 1, 1, 0]


@pytest.mark.rule("E-21")
def test_distances_are_euclidean_without_the_diagonal():
    metric = MedianDistances()
    metric.update(torch.tensor([[0.0, 0], [3, 4], [6, 8]]), torch.tensor([0, 0, 0]))
    assert states(metric)[:3] == [[[5, 10, 5]], [[5, 5, 5]], [[5, 5, 5]]]


@pytest.mark.rule("E-21", "G-1")
@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_gives_float32_without_overflow(given, dtype):
    metric = MedianDistances()
    metric.update(torch.tensor([[300.0, 0], [0, 0]], dtype=given), torch.tensor([0, 0]))
    for name in NAMES:
        assert getattr(metric, name)[0].dtype == dtype
    assert medians(metric)[:3] == [300, 300, 300]


@pytest.mark.rule("X21")
def test_the_distance_of_near_rows_far_from_the_origin_does_not_cancel():
    metric = MedianDistances()
    metric.update(torch.tensor([[1000.0, 0], [1000.01, 0]]), torch.tensor([0, 0]))
    expected = float(np.float32(1000.01)) - 1000.0
    assert medians(metric)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.rule("E-22")
def test_states_that_arrive_concatenated_are_accepted():
    metric = MedianDistances()
    metric.update(E, L)
    for name in NAMES:
        setattr(metric, name, torch.cat(getattr(metric, name)))
    assert medians(metric) == [7, 1, 1, 0]


@pytest.mark.rule("E-23", "G-3")
def test_a_nan_embedding_ranks_last_and_makes_medians_nan():
    rows = torch.tensor([[0.0], [1], [float("nan")], [5]])
    metric = MedianDistances()
    metric.update(rows, torch.tensor([0, 0, 1, 1]))
    closest = metric.closest_distances[0]
    assert closest[[0, 1, 3]].tolist() == [1, 1, 4]
    assert closest[2].isnan()
    assert metric.positive_distances[0][:2].tolist() == [1, 1]
    assert np.isnan(medians(metric)).all()


@pytest.mark.rule("E-14")
def test_forward_returns_the_medians_of_its_batch_alone():
    metric = MedianDistances()
    first = metric(E, L)
    second = metric(E * 2, L)
    assert second["MedianDistance"].item() == 2 * first["MedianDistance"].item()
    assert [len(t) for t in metric.all_distances] == [10, 10]


@pytest.mark.rule("E-12")
@pytest.mark.parametrize("size", [None, 2])
def test_embeddings_and_target_of_two_lengths_are_refused(size):
    with pytest.raises(ValueError, match="got 5 and 4"):
        MedianDistances(cross_batch_memory_size=size).update(E, L[:4])


def test_blocks_bound_what_an_update_needs():
    assert median_distances._BLOCK * 4 <= 1 << 24
