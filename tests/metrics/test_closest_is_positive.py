import types

import numpy as np
import pytest
import torch

from nearwise.metrics import ClosestIsPositiveAccuracy
from nearwise.metrics.nearest import nearest_after, nearest_other

E = torch.tensor([[0.0, 0], [1, 0], [3, 0], [10, 0], [11, 0]])
L = torch.tensor([0, 0, 1, 1, 2])


def scored(embeddings, labels):
    """Matches and counted embeddings, by a full matrix in float64."""
    x = np.asarray(embeddings, dtype=np.float64)
    distances = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)).astype(np.float32)
    np.fill_diagonal(distances, np.inf)
    distances[np.isnan(distances)] = np.inf
    labels = np.asarray(labels)
    counted = (labels[:, None] == labels[None]).sum(1) > 1
    nearest = distances.argmin(1)
    match = counted & (labels[nearest] == labels) & np.isfinite(distances.min(1))
    return int(match.sum()), int(counted.sum())


def counts(metric):
    return int(metric.correct), int(metric.total)


@pytest.mark.rule("E-1")
def test_an_embedding_counts_if_another_has_its_label_and_scores_if_that_is_nearest():
    metric = ClosestIsPositiveAccuracy()
    metric.update(E, L)
    assert counts(metric) == (2, 4)
    assert metric.compute().item() == 0.5


@pytest.mark.rule("E-1", "E-4")
def test_random_batches_give_the_counts_of_a_full_matrix():
    generator = np.random.default_rng(5)
    metric, matches, total = ClosestIsPositiveAccuracy(), 0, 0
    for _ in range(20):
        rows = int(generator.integers(1, 40))
        x = generator.integers(-3, 4, (rows, 2)).astype(np.float32)
        y = generator.integers(0, 6, rows)
        metric.update(torch.from_numpy(x), torch.from_numpy(y))
        m, t = scored(x, y)
        matches, total = matches + m, total + t
    assert counts(metric) == (matches, total)
    assert total > 100


@pytest.mark.rule("E-2", "E-4")
def test_a_batch_of_one_label_counts_whole_and_batches_add_up():
    metric = ClosestIsPositiveAccuracy()
    metric.update(E, L)
    metric.update(E, torch.zeros(5, dtype=torch.long))
    assert counts(metric) == (7, 9)
    assert metric.compute().item() == pytest.approx(7 / 9, abs=1e-7)


@pytest.mark.rule("E-3")
def test_nothing_counted_is_nan_before_and_after_reset():
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=4)
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert metric.compute().isnan()
    metric.update(E, L)
    assert not metric.compute().isnan()
    metric.reset()
    assert counts(metric) == (0, 0)
    assert metric.cross_batch_memory == []
    metric.update(E[:2], torch.tensor([0, 1]))
    assert metric.compute().isnan()


@pytest.mark.rule("E-5")
def test_a_batch_of_one_or_none_counts_nothing():
    metric = ClosestIsPositiveAccuracy()
    metric.update(E[:1], L[:1])
    metric.update(E[:0], L[:0])
    assert counts(metric) == (0, 0)
    assert metric.compute().isnan()


@pytest.mark.rule("E-6")
@pytest.mark.parametrize(("labels", "expected"), [([0, 0, 1], (2, 2)), ([0, 1, 0], (1, 2))])
def test_of_equally_near_embeddings_the_first_decides(labels, expected):
    metric = ClosestIsPositiveAccuracy()
    metric.update(torch.tensor([[0.0], [1], [-1]]), torch.tensor(labels))
    assert counts(metric) == expected


@pytest.mark.rule("E-6")
def test_identical_points_are_told_apart_by_position():
    metric = ClosestIsPositiveAccuracy()
    metric.update(torch.ones(3, 2), torch.tensor([0, 1, 0]))
    # Row 0 takes row 1, row 2 takes row 0: one match of two.
    assert counts(metric) == (1, 2)


@pytest.mark.rule("E-7")
def test_counts_go_on_above_the_whole_numbers_of_float32():
    metric = ClosestIsPositiveAccuracy()
    metric.correct += 2**24
    metric.total += 2**24
    metric.update(E[:1].repeat(3, 1), torch.zeros(3, dtype=torch.long))
    assert counts(metric) == (2**24 + 3, 2**24 + 3)
    assert metric.correct.dtype == torch.int64


@pytest.mark.rule("E-8", "E-9")
def test_a_memory_scores_all_of_itself_again_once_it_is_full():
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=4)
    seen = []
    for rows in ([0, 1], [2], [3], [4], [0, 1, 2, 3, 4]):
        metric.update(E[rows], L[rows])
        seen.append((len(metric.cross_batch_memory), *counts(metric)))
    assert seen == [(2, 0, 0), (3, 0, 0), (4, 3, 4), (4, 3, 6), (4, 3, 8)]
    assert metric.compute().item() == 0.375
    assert [int(label) for _, label in metric.cross_batch_memory] == [0, 1, 1, 2]


@pytest.mark.rule("E-8")
@pytest.mark.parametrize("spread", [2, 50], ids=["many ties", "few ties"])
def test_a_memory_that_moves_on_scores_as_if_it_were_searched_anew(spread):
    generator = np.random.default_rng(spread)
    size = 60
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=size)
    x, y, matches, total = np.empty((0, 3), np.float32), np.empty(0, np.int64), 0, 0
    for step in range(60):
        rows = int(generator.integers(2, 9)) if step % 9 else 70
        new = generator.integers(-spread, spread, (rows, 3)).astype(np.float32)
        if step % 7 == 3:
            new[0] = np.nan
        labels = generator.integers(0, 9, rows)
        x, y = np.concatenate([x, new])[-size:], np.concatenate([y, labels])[-size:]
        metric.update(torch.from_numpy(new), torch.from_numpy(labels))
        if len(x) == size:
            m, t = scored(x, y)
            matches, total = matches + m, total + t
        assert counts(metric) == (matches, total)
    assert matches > 100


@pytest.mark.rule("E-8")
def test_neighbours_kept_up_to_date_are_those_of_a_new_search():
    torch.manual_seed(0)
    rows = torch.randn(400, 4).round(decimals=1)
    distances, indices = nearest_other(rows[:300])
    for added in (1, 2, 5, 20):
        rows_now = rows[added : 300 + added]
        updated = nearest_after(rows_now, added, distances, indices)
        anew = nearest_other(rows_now)
        assert torch.equal(updated[0], anew[0])
        assert torch.equal(updated[1], anew[1])


@pytest.mark.rule("E-8")
def test_an_interrupted_search_leaves_no_stale_neighbours(monkeypatch):
    torch.manual_seed(1)
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=50)
    labels = torch.arange(50) % 5
    metric.update(torch.randn(50, 3), labels)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nearwise.metrics.nearest.knn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            metric.update(torch.randn(4, 3), labels[:4])
    before = counts(metric)
    metric.update(torch.randn(4, 3), labels[:4])
    m, t = scored(metric.memory_embeddings, metric.memory_labels)
    assert (counts(metric)[0] - before[0], counts(metric)[1] - before[1]) == (m, t)


@pytest.mark.rule("E-10")
def test_the_memory_holds_detached_copies_and_empties_on_reset():
    batch = torch.randn(300, 8, requires_grad=True)
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=3)
    metric.update(batch, torch.zeros(300, dtype=torch.long))
    row, _ = metric.cross_batch_memory[0]
    assert not row.requires_grad
    assert row.untyped_storage().nbytes() == 3 * 8 * 4
    with torch.no_grad():
        batch.zero_()
    assert row.abs().sum() > 0
    metric.reset()
    assert metric.cross_batch_memory == []


@pytest.mark.rule("E-11")
@pytest.mark.parametrize("size", [0, -1])
def test_a_memory_of_no_rows_is_refused(size):
    with pytest.raises(ValueError, match="cross_batch_memory_size must be at least 1"):
        ClosestIsPositiveAccuracy(cross_batch_memory_size=size)


@pytest.mark.parametrize("size", [True, 1.5, "4"])
def test_a_memory_size_of_another_type_is_refused(size):
    with pytest.raises(TypeError, match="cross_batch_memory_size must be an integer"):
        ClosestIsPositiveAccuracy(cross_batch_memory_size=size)


@pytest.mark.rule("E-12")
@pytest.mark.parametrize("size", [None, 2])
def test_predictions_and_target_of_two_lengths_are_refused(size):
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=size)
    with pytest.raises(ValueError, match="got 5 and 4"):
        metric.update(E, L[:4])


def test_other_shapes_and_integers_are_refused():
    metric = ClosestIsPositiveAccuracy()
    with pytest.raises(ValueError, match=r"\(B, D\)"):
        metric.update(E[0], L)
    with pytest.raises(TypeError, match="floating"):
        metric.update(E.long(), L)


@pytest.mark.rule("E-14")
def test_forward_returns_the_value_of_its_batch_alone():
    metric = ClosestIsPositiveAccuracy(cross_batch_memory_size=3)
    assert metric(E[:2], L[:2]).isnan()
    assert len(metric.cross_batch_memory) == 2
    value = metric(torch.tensor([[0.0], [1], [-1]]).repeat(1, 2), torch.tensor([0, 1, 0]))
    assert value.item() == 0.5
    assert len(metric.cross_batch_memory) == 3
    plain = ClosestIsPositiveAccuracy()
    assert plain(E, L).item() == 0.5
    assert plain(E, torch.zeros(5)).item() == 1.0
    assert plain.compute().item() == pytest.approx(7 / 9, abs=1e-7)


@pytest.mark.rule("E-23", "G-3")
def test_a_nan_embedding_is_nobodys_match():
    rows = torch.tensor([[float("nan"), 0], [0, 0], [1, 0], [float("nan"), 1]])
    metric = ClosestIsPositiveAccuracy()
    metric.update(rows, torch.tensor([0, 0, 0, 0]))
    assert counts(metric) == (2, 4)


@pytest.mark.rule("E-0")
def test_the_node_sets_the_memory_and_the_keyword_wins():
    node = types.SimpleNamespace(cross_batch_memory_size=7)
    metric = ClosestIsPositiveAccuracy(node=node)
    assert metric.node is node
    assert metric.cross_batch_memory_size == 7
    assert ClosestIsPositiveAccuracy(node=node, cross_batch_memory_size=3).cross_batch_memory_size == 3
    assert ClosestIsPositiveAccuracy(node=node, cross_batch_memory_size=None).cross_batch_memory_size is None
    assert ClosestIsPositiveAccuracy().cross_batch_memory_size is None
    assert "embeddings" in metric.supported_tasks
    with pytest.raises(TypeError, match="cross_batch_memory_size"):
        ClosestIsPositiveAccuracy(node=object())
    with pytest.raises(ValueError, match="foo"):
        ClosestIsPositiveAccuracy(foo=1)


@pytest.mark.rule("X21", "E-21")
def test_near_rows_far_from_the_origin_are_told_apart():
    rows = torch.tensor([[1000.0, 0], [1000.01, 0], [1000.03, 0], [1000.035, 0]])
    metric = ClosestIsPositiveAccuracy()
    metric.update(rows, torch.tensor([0, 0, 1, 1]))
    assert counts(metric) == (4, 4)
