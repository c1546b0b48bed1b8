"""Faults and wants around testers that users of pytorch-metric-learning reported."""

import numpy as np
import pytest
import torch

from nearwise.evaluation import AccuracyCalculator
from nearwise.testers import GlobalEmbeddingSpaceTester
from testers.tester_data import FAMILY_ANGLES, P1, Items, make_tester, points

IDENTITY = torch.nn.Identity()
NAMES = ("mean_average_precision", "precision_at_1")


def split(generator, rows):
    labels = torch.randint(0, 3, (rows,), generator=generator)
    return torch.eye(3)[labels] + torch.randn(rows, 3, generator=generator), labels


@pytest.mark.rule("T-2", "T-3", "T-4")
def test_every_query_can_be_combined_with_every_reference():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/pull/250: one query, several sets of references."""
    generator = torch.Generator().manual_seed(0)
    data = {name: split(generator, rows) for name, rows in (("a", 20), ("b", 30), ("c", 25))}
    splits = [("a", ["b"]), ("a", ["c", "b"]), ("a", ["a"]), ("b", ["a", "b", "c"]), ("b", ["c"]), ("c", ["a"])]
    keys = ["a", "a_vs_b_and_c", "a_vs_a", "b", "b_vs_c", "c"]
    tester = make_tester(GlobalEmbeddingSpaceTester, include=NAMES, normalize_embeddings=False)
    found = tester.test({name: Items(*pair) for name, pair in data.items()}, 1, IDENTITY, splits_to_eval=splits)
    assert len(found) == len(splits)
    calculator = AccuracyCalculator(include=NAMES)
    for (key, result), (query, references) in zip(found.items(), splits, strict=True):
        own = query in references
        order = ([query] if own else []) + [name for name in references if name != query]
        reference = [torch.cat([data[name][side] for name in order]) for side in (0, 1)]
        expected = calculator.get_accuracy(*data[query], *reference, own)
        assert {name: result[f"{name}_level0"] for name in NAMES} == expected, key
    assert list(found) == keys


@pytest.mark.rule("T-12", "T-15")
@pytest.mark.parametrize("level", [0, 1])
def test_labels_are_ranked_level_by_level_whichever_is_scored(level):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/624: unclear what was ranked, and when."""
    labels = [["b", 30], ["b", 10], ["d", 30], ["d", 10], ["b", 20], ["d", 30], ["a", 30], ["a", 10]]
    known = [*labels, ["c", 5], ["b", 25]]
    seen = {}
    tester = make_tester(
        GlobalEmbeddingSpaceTester,
        label_hierarchy_level=level,
        set_min_label_to_zero=True,
        dataset_labels=known,
        end_of_testing_hook=lambda t: seen.update(t.embeddings_and_labels),
    )
    found = tester.test({"val": Items(points(FAMILY_ANGLES), labels)}, 1, IDENTITY)
    # Both levels are kept, and ranks count the labels that only dataset_labels have.
    ranks = [{"a": 0, "b": 1, "c": 2, "d": 3}, {5: 0, 10: 1, 20: 2, 25: 3, 30: 4}]
    embeddings, mapped = seen["val"]
    assert mapped.tolist() == [[ranks[0][name], ranks[1][number]] for name, number in labels]
    raw = np.unique([str(pair[level]) for pair in labels], return_inverse=True)[1]
    expected = AccuracyCalculator(include=("precision_at_1",)).get_accuracy(embeddings, torch.from_numpy(raw))
    assert found["val"] == {"epoch": 1, f"precision_at_1_level{level}": expected["precision_at_1"]}


class Turned(Items):
    """Samples that only their collate function makes comparable: each is turned by an angle of its own."""

    def __getitem__(self, i):
        x, label = super().__getitem__(i)
        return {"x": rotation(40 * i) @ x, "turn": 40 * i, "label": label}


def rotation(degrees):
    angle = np.deg2rad(degrees)
    return torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], dtype=torch.float32)


def turned_back(samples):
    rows = torch.stack([rotation(-sample["turn"]) @ sample["x"] for sample in samples])
    return rows, torch.tensor([sample["label"] for sample in samples])


@pytest.mark.rule("T-0")
def test_without_the_collate_function_of_the_training_a_model_looks_untrained():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/289: the tester's loader had not got it."""
    angles = [0, 10, 20, 100, 110, 120, 200, 210, 220]
    dataset = Turned(points(angles), [0, 0, 0, 1, 1, 1, 2, 2, 2])

    def plain(samples):
        return torch.stack([sample["x"] for sample in samples]), torch.tensor([s["label"] for s in samples])

    tester = make_tester(GlobalEmbeddingSpaceTester, batch_size=2)
    assert tester.test({"val": dataset}, 1, IDENTITY, collate_fn=turned_back)["val"][P1] == 1.0
    assert tester.test({"val": dataset}, 1, IDENTITY, None, None, turned_back)["val"][P1] == 1.0
    assert tester.test({"val": dataset}, 1, IDENTITY, collate_fn=plain)["val"][P1] < 0.6
    embeddings = tester.get_all_embeddings(dataset, IDENTITY, collate_fn=turned_back)[0]
    torch.testing.assert_close(embeddings, torch.nn.functional.normalize(points(angles)))


@pytest.mark.rule("G-6", "T-9")
@pytest.mark.parametrize(
    ("pca", "error"), [(-1, ValueError), (0, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)]
)
def test_a_number_of_components_that_is_none_is_refused(pca, error):
    with pytest.raises(error, match="pca must be a positive integer"):
        GlobalEmbeddingSpaceTester(pca=pca)


@pytest.mark.rule("T-0")
def test_a_dtype_is_for_numbers_with_a_fraction_alone():
    seen = []

    class Lookup(torch.nn.Module):
        def forward(self, batch):
            seen.append((batch["ids"].dtype, batch["x"].dtype))
            return batch["x"]

    rows = [({"ids": torch.tensor(i), "x": torch.randn(3)}, i % 2) for i in range(6)]
    tester = make_tester(GlobalEmbeddingSpaceTester, include=NAMES, dtype=torch.float16)
    tester.test({"val": rows}, 1, Lookup())
    assert set(seen) == {(torch.int64, torch.float16)}


@pytest.mark.rule("T-0")
def test_bfloat16_embeddings_become_float32_where_numpy_is_asked_for():
    rows = [(torch.randn(3), i % 2) for i in range(6)]
    tester = make_tester(GlobalEmbeddingSpaceTester, include=NAMES, dtype=torch.bfloat16)
    embeddings, _ = tester.get_all_embeddings(rows, IDENTITY, return_as_numpy=True)
    assert embeddings.dtype == np.float32
    assert embeddings.shape == (6, 3)
