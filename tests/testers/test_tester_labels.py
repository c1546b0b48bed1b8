import numpy as np
import pytest
import torch

from nearwise.testers import GlobalEmbeddingSpaceTester, LabelMapper
from nearwise.testers.labels import columns_of
from testers.tester_data import P1, Items, make_tester, points, train, val

IDENTITY = torch.nn.Identity()
ANGLES = [0, 10, 20, 60, 70, 80]


def labels_seen(labels, *, collate_fn=None, **options):
    t = make_tester(GlobalEmbeddingSpaceTester, **options)
    return t.get_all_embeddings(Items(points(ANGLES[: len(labels)]), labels), IDENTITY, collate_fn=collate_fn)[1]


@pytest.mark.rule("T-12")
@pytest.mark.parametrize(
    ("known", "labels", "expected"),
    [
        ([12, 5, 13, 10, 5], [5, 10, 12, 13], [0, 1, 2, 3]),
        (["dog", "cat", "monkey"], ["dog", "cat", "monkey"], [1, 0, 2]),
        (["9", "10", "100"], ["10", "100", "9"], [0, 1, 2]),
        (np.array([3.5, -1.0]), [3.5, -1.0], [1, 0]),
        (torch.tensor([7, 3]), torch.tensor([7, 3, 7]), [1, 0, 1]),
    ],
)
def test_a_label_becomes_its_rank_among_those_of_the_dataset(known, labels, expected):
    assert LabelMapper(True, known).map(labels, 0).tolist() == expected


@pytest.mark.rule("T-12")
def test_each_level_has_ranks_of_its_own():
    mapper = LabelMapper(True, [("a", 30), ("b", 10), ("a", 20)])
    assert mapper.map(["b", "a"], 0).tolist() == [1, 0]
    assert mapper.map([30, 10, 20], 1).tolist() == [2, 0, 1]
    assert mapper.label_map == {0: {"a": 0, "b": 1}, 1: {10: 0, 20: 1, 30: 2}}


@pytest.mark.rule("T-12")
def test_labels_stay_unless_they_are_to_be_replaced():
    labels = torch.tensor([5, 7])
    assert LabelMapper().map(labels, 0) is labels
    assert LabelMapper(False, [5, 7]).map(labels, 0) is labels


@pytest.mark.rule("T-12", "X15")
@pytest.mark.parametrize("flag", [True, False])
def test_string_labels_of_single_samples_work_with_the_default_collation(flag):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/16: no ndim."""
    labels = ["dog", "dog", "dog", "cat", "cat", "cat"]
    options = {"set_min_label_to_zero": True, "dataset_labels": ["monkey", *labels]} if flag else {}
    assert labels_seen(labels, **options).tolist() == [[1], [1], [1], [0], [0], [0]]
    t = make_tester(GlobalEmbeddingSpaceTester, batch_size=2, **options)
    assert t.test({"val": Items(points(ANGLES), labels)}, 1, IDENTITY)["val"][P1] == 1.0


@pytest.mark.rule("T-12")
def test_string_labels_of_several_splits_are_numbered_together():
    datasets = {
        "train": Items(points(ANGLES), ["b", "b", "b", "c", "c", "c"]),
        "val": Items(points(ANGLES), ["a", "b", "b", "c", "c", "d"]),
    }
    found = {}
    t = make_tester(GlobalEmbeddingSpaceTester, end_of_testing_hook=lambda t: found.update(t.embeddings_and_labels))
    score = t.test(datasets, 1, IDENTITY, splits_to_eval=[("val", ["train"])])["val"][P1]
    assert found["train"][1][:, 0].tolist() == [1, 1, 1, 2, 2, 2]
    assert found["val"][1][:, 0].tolist() == [0, 1, 1, 2, 2, 3]
    # "a" and "d" have no reference and do not count.
    assert score == 1.0


@pytest.mark.rule("T-12", "T-14")
def test_hierarchies_of_strings_become_integers_level_by_level():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/422: they stayed strings."""
    labels = [["A", "A.2"], ["A", "A.1"], ["B", "B.1"]]
    known = [["A", "A.1"], ["A", "A.2"], ["B", "B.1"]]
    mapped = labels_seen(labels, set_min_label_to_zero=True, dataset_labels=known)
    assert mapped.tolist() == [[0, 1], [0, 0], [1, 2]]
    assert mapped.dtype == torch.int64
    assert labels_seen(labels).tolist() == mapped.tolist()


@pytest.mark.rule("T-12")
def test_strings_and_numbers_can_be_levels_of_one_label():
    assert labels_seen([("dog", 7), ("cat", 5), ("dog", 7)]).tolist() == [[1, 7], [0, 5], [1, 7]]


@pytest.mark.rule("T-12")
def test_a_getter_may_return_arrays_of_strings():
    t = make_tester(GlobalEmbeddingSpaceTester, data_and_label_getter=lambda b: (b[0], np.array(b[1])))
    labels = t.get_all_embeddings(Items(points(ANGLES[:3]), ["x", "y", "x"]), IDENTITY)[1]
    assert labels.tolist() == [[0], [1], [0]]


@pytest.mark.rule("T-13")
def test_ranks_need_the_labels_of_the_dataset():
    for make in (
        lambda: LabelMapper(True),
        lambda: make_tester(GlobalEmbeddingSpaceTester, set_min_label_to_zero=True),
    ):
        with pytest.raises(ValueError, match="needs dataset_labels"):
            make()


@pytest.mark.rule("T-13")
def test_a_label_that_the_dataset_lacks_is_named():
    t = make_tester(GlobalEmbeddingSpaceTester, set_min_label_to_zero=True, dataset_labels=["dog"])
    with pytest.raises(KeyError, match="'cat' of level 0"):
        t.test({"val": Items(points(ANGLES[:2]), ["dog", "cat"])}, 1, IDENTITY)
    with pytest.raises(KeyError, match="level 1"):
        LabelMapper(True, [1, 2]).map([1], 1)


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_labels_are_kept_as_a_matrix_of_their_type(dtype):
    one = labels_seen(torch.tensor([3, 4, 3]).to(dtype))
    assert one.tolist() == [[3], [4], [3]]
    assert one.dtype == dtype
    two = labels_seen(torch.tensor([[3, 1], [4, 1]]).to(dtype))
    assert two.tolist() == [[3, 1], [4, 1]]
    assert two.dtype == dtype


@pytest.mark.rule("T-14")
def test_a_list_of_levels_is_stacked():
    assert labels_seen([[3, 1], [4, 2], [5, 2]]).tolist() == [[3, 1], [4, 2], [5, 2]]
    rows = [[0, 0], [1, 0], [2, 1], [3, 1]]
    assert labels_seen(rows, batch_size=2).tolist() == rows


@pytest.mark.rule("T-14")
def test_a_collate_function_may_list_labels_by_sample():
    def collate(samples):
        return torch.stack([x for x, _ in samples]), [y for _, y in samples]

    assert labels_seen([("a", "p"), ("b", "p"), ("b", "q")], collate_fn=collate).tolist() == [[0, 0], [1, 0], [1, 1]]
    assert labels_seen([4, 5, 6], collate_fn=collate).tolist() == [[4], [5], [6]]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize(
    ("labels", "error"),
    [
        (torch.zeros(3, 2, 2), ValueError),
        (torch.zeros(4), ValueError),
        (["a", "b"], ValueError),
        ([torch.zeros(3), torch.zeros(2)], ValueError),
        ("abc", TypeError),
        (None, TypeError),
    ],
)
def test_labels_that_do_not_fit_the_samples_are_refused(labels, error):
    with pytest.raises(error, match="labels must"):
        columns_of(labels, 3)


def test_numbers_in_one_split_and_strings_in_another_are_refused():
    with pytest.raises(ValueError, match="numbers in 'val' and strings"):
        make_tester(GlobalEmbeddingSpaceTester).test(
            {"train": Items(points(ANGLES), list("aabbcc")), "val": val()}, 1, IDENTITY
        )


def test_labels_that_cannot_be_ordered_are_refused():
    with pytest.raises(TypeError, match="comparable"):
        LabelMapper(True, ["a", 1])


def test_big_integers_keep_their_identity():
    labels = labels_seen(torch.tensor([2**53, 2**53 + 1]))
    assert labels[:, 0].tolist() == [2**53, 2**53 + 1]
    assert make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, 1, IDENTITY)["train"][P1] == 1.0
