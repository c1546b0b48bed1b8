import logging
import math

import pytest
import torch

from nearwise.errors import ContractError
from nearwise.evaluation import AccuracyCalculator
from nearwise.testers import GlobalTwoStreamEmbeddingSpaceTester, WithSameParentLabelTester
from testers.tester_data import FAMILY_ANGLES, P1, TRAIN_ANGLES, Items, family, make_tester, points, train

IDENTITY = torch.nn.Identity()


def within(datasets, splits=None, **options):
    return make_tester(WithSameParentLabelTester, **options).test(datasets, 1, IDENTITY, splits_to_eval=splits)


@pytest.mark.rule("P-1", "P-5")
def test_samples_are_scored_among_those_of_their_parent():
    found = within({"train": family()})["train"]
    assert found == {"epoch": 1, P1: 1.0}
    assert type(found[P1]) is float


@pytest.mark.rule("P-1")
def test_parents_weigh_the_same_however_many_samples_they_have():
    angles = [0, 1, 10, 11, 50, 51, 52, 53, 54, 55]
    labels = [[0, 0], [0, 0], [1, 0], [1, 0], [2, 1], [3, 1], [2, 1], [3, 1], [2, 1], [3, 1]]
    # Parent 0 scores 1, parent 1 scores 0; over samples it would be 0.4.
    assert within({"train": Items(points(angles), torch.tensor(labels))})["train"][P1] == 0.5


@pytest.mark.rule("P-1")
def test_parents_are_kept_apart_over_several_reference_splits():
    torch.manual_seed(2)
    rows, labels = torch.randn(40, 3), torch.stack([torch.arange(40) % 8, torch.arange(40) % 8 // 4], dim=1)
    sets = {"train": Items(rows[:25], labels[:25]), "val": Items(rows[25:], labels[25:])}
    found = within(sets, [("val", ["train", "val"])])["val"][P1]
    order = torch.cat([torch.arange(25, 40), torch.arange(25)])
    x, y = torch.nn.functional.normalize(rows[order]), labels[order]
    scores = []
    for parent in (0, 1):
        q, r = (y[:15, 1] == parent).nonzero()[:, 0], (y[:, 1] == parent).nonzero()[:, 0]
        d = torch.cdist(x[q].double(), x[r].double())
        d[q[:, None] == r[None]] = math.inf
        counted = torch.tensor([(y[r, 0] == label).sum() > 1 for label in y[q, 0]])
        scores.append((y[r[d.argmin(1)], 0] == y[q, 0])[counted].double().mean().item())
    assert found == pytest.approx(sum(scores) / 2)


@pytest.mark.rule("P-2")
def test_the_last_level_has_no_parent():
    with pytest.raises(ContractError, match="a level that has a parent level after it, got 1 for labels of 2 levels"):
        within({"train": family()}, label_hierarchy_level=1)
    with pytest.raises(ContractError, match="labels of 1 levels"):
        within({"train": train()})
    labels = [[a, b, 0] for a, b in [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (3, 1), (3, 1)]]
    found = within({"train": family(labels)}, label_hierarchy_level="all")["train"]
    assert found == {"epoch": 1, P1: 1.0, "precision_at_1_level1": 0.75, "AVERAGE_precision_at_1": 0.875}


@pytest.mark.rule("P-3")
def test_a_parent_without_scorable_queries_is_left_out_with_a_warning(caplog):
    data = Items(
        points([*FAMILY_ANGLES, 85]),
        torch.tensor([[0, 0], [0, 0], [1, 0], [1, 0], [2, 1], [2, 1], [3, 1], [3, 1], [4, 2]]),
    )
    with caplog.at_level(logging.WARNING, logger="nearwise.testers"):
        assert within({"train": data})["train"][P1] == 1.0
    assert "1 of 3 parent labels" in caplog.text
    alone = Items(points([0, 10]), torch.tensor([[0, 0], [1, 1]]))
    assert math.isnan(within({"train": alone})["train"][P1])


@pytest.mark.rule("P-4")
def test_a_parent_that_the_references_lack_counts_as_without_scorable_queries():
    query = Items(points([0, 9, 51, 59]), torch.tensor([[0, 0], [1, 0], [5, 7], [6, 7]]))
    reference = Items(points([1, 10]), torch.tensor([[0, 0], [1, 0]]))
    found = within({"val": query, "train": reference}, [("val", ["train"])])["val"]
    assert found[P1] == 1.0


@pytest.mark.rule("P-1", "T-16")
def test_results_for_each_class_are_strung_together_over_the_parents():
    calculator = AccuracyCalculator(include=("precision_at_1",), return_per_class=True)
    assert within({"train": family()}, calculator=calculator)["train"][P1] == [1.0] * 4


POSNEG_ANGLES = [81, 71, 61, 31, 51, 21, 11, 1]


def streams(labels=None):
    labels = torch.arange(1, 9) if labels is None else torch.tensor(labels)
    return Items(points(TRAIN_ANGLES), points(POSNEG_ANGLES), labels)


def two(datasets, splits=None, **options):
    t = make_tester(GlobalTwoStreamEmbeddingSpaceTester, **options)
    return t.test(datasets, 1, IDENTITY, splits_to_eval=splits)


@pytest.mark.rule("W-1")
def test_anchors_are_scored_against_the_other_stream():
    assert two({"train": streams()})["train"] == {"epoch": 1, P1: 0.25}
    t = make_tester(GlobalTwoStreamEmbeddingSpaceTester)
    assert not t.ref_includes_query("train", ["train"])


@pytest.mark.rule("W-2")
def test_anchors_are_kept_above_the_other_stream():
    found = {}
    t = make_tester(
        GlobalTwoStreamEmbeddingSpaceTester,
        normalize_embeddings=False,
        batch_size=3,
        end_of_testing_hook=lambda t: found.update(t.embeddings_and_labels),
    )
    t.test({"train": streams()}, 1, IDENTITY)
    embeddings, labels = found["train"]
    assert torch.equal(embeddings, torch.cat([points(TRAIN_ANGLES), points(POSNEG_ANGLES)]))
    assert labels.tolist() == [[i] for i in range(1, 9)] * 2


@pytest.mark.rule("W-3", "G-6")
@pytest.mark.parametrize("references", [["val"], ["train", "val"], ["val", "train"]])
def test_another_reference_split_is_refused_before_anything_is_embedded(references):
    data = {"train": streams(), "val": streams()}
    with pytest.raises(ContractError, match="within one split"):
        two(data, [("train", references)])
    assert data["train"].asked == 0
    assert two(data, [("val", ["val"])])["val"][P1] == 0.25


LEVELS = [[i, 0] for i in range(1, 9)]


@pytest.mark.rule("W-4")
def test_label_levels_work_as_in_the_other_testers():
    data = {"train": streams(LEVELS)}
    assert two(data, label_hierarchy_level=1)["train"] == {"epoch": 1, "precision_at_1_level1": 1.0}
    assert two(data, label_hierarchy_level=[1])["train"] == {"epoch": 1, "precision_at_1_level1": 1.0}
    assert two(data, label_hierarchy_level="all")["train"] == {
        "epoch": 1,
        P1: 0.25,
        "precision_at_1_level1": 1.0,
        "AVERAGE_precision_at_1": 0.625,
    }


@pytest.mark.rule("W-5")
def test_types_of_embeddings_and_labels_are_preserved():
    t = make_tester(GlobalTwoStreamEmbeddingSpaceTester, dtype=torch.float64)
    embeddings, labels = t.get_all_embeddings(streams([2**53 + 1] * 8), IDENTITY)
    assert embeddings.dtype == torch.float64
    assert labels.dtype == torch.int64
    assert int(labels[0, 0]) == 2**53 + 1


@pytest.mark.rule("W-6")
def test_embeddings_alone_are_had_as_from_the_other_testers():
    t = make_tester(GlobalTwoStreamEmbeddingSpaceTester)
    trunk = torch.nn.Linear(2, 2)
    embeddings, labels = t.get_all_embeddings(streams(), trunk, eval=False, return_as_numpy=True)
    assert embeddings.shape == (16, 2)
    assert labels.shape == (16, 1)
    assert trunk.training
    t.get_all_embeddings(streams(), trunk)
    assert not trunk.training


@pytest.mark.rule("T-10", "W-1")
def test_pca_of_two_streams_is_fitted_on_both():
    from nearwise.testers.pca import PrincipalBasis

    torch.manual_seed(0)
    anchors, others = torch.randn(12, 4), torch.randn(12, 4) + 3
    t = make_tester(GlobalTwoStreamEmbeddingSpaceTester, pca=2, normalize_embeddings=False)
    embeddings, _ = t.get_all_embeddings(Items(anchors, others, list(range(12))), IDENTITY)
    both = torch.cat([anchors, others])
    assert torch.allclose(embeddings, PrincipalBasis.fit(both, 2).project(both), atol=1e-5)


@pytest.mark.rule("W-1")
def test_string_labels_work_with_two_streams():
    data = Items(points(TRAIN_ANGLES), points(POSNEG_ANGLES), [str(i) for i in range(8)])
    assert two({"train": data})["train"][P1] == 0.25
