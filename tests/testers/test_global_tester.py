import logging
import math

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from nearwise.distances import LpDistance, SNRDistance
from nearwise.errors import ContractError
from nearwise.evaluation import AccuracyCalculator, CustomKNN
from nearwise.testers import BaseTester, GlobalEmbeddingSpaceTester
from testers.tester_data import FAMILY_ANGLES, FAMILY_LABELS, P1, Items, family, make_tester, points, train, val

IDENTITY = torch.nn.Identity()


def run(datasets=None, splits=None, **options):
    t = make_tester(GlobalEmbeddingSpaceTester, **options)
    return t.test(datasets or {"train": train(), "val": val()}, 1, IDENTITY, splits_to_eval=splits)


def seen(name="train", **options):
    """What a hook finds under a split's name."""
    found = {}
    datasets = options.pop("datasets", {"train": train()})
    splits = options.pop("splits", None)
    t = make_tester(
        GlobalEmbeddingSpaceTester,
        end_of_testing_hook=lambda t: found.update(t.embeddings_and_labels),
        **options,
    )
    t.test(datasets, 1, IDENTITY, splits_to_eval=splits)
    return found[name]


@pytest.mark.rule("T-1", "T-0", "X10")
def test_by_default_each_split_is_scored_in_itself_without_each_sample_itself():
    assert run() == {"train": {"epoch": 1, P1: 1.0}, "val": {"epoch": 1, P1: 0.75}}


@pytest.mark.rule("X4")
def test_a_sample_is_not_its_own_neighbour():
    # Each twin has the other's label: were a sample its own neighbour, the score would be 1.
    data = Items(torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]]), [1, 0, 1, 0])
    assert run({"val": data})["val"][P1] == 0.0


@pytest.mark.rule("T-2")
@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ([("train", ["train", "val"]), ("val", ["train", "val"])], {"train": 1 / 8, "val": 1 / 8}),
        ([("train", ["train"]), ("val", ["train"])], {"train": 1.0, "val": 1 / 8}),
    ],
)
def test_neighbours_come_from_the_reference_splits_together(splits, expected):
    assert {name: found[P1] for name, found in run(splits=splits).items()} == expected


@pytest.mark.rule("T-3")
def test_a_query_among_its_references_comes_first_of_them():
    t = make_tester(GlobalEmbeddingSpaceTester)
    found = t.test({"train": train(), "val": val()}, 1, IDENTITY, splits_to_eval=[("train", ["val", "train"])])
    assert found["train"][P1] == 1 / 8
    assert t.reference_split_names["train"] == ["train", "val"]
    # By name: equal data under another name is another set, in which each sample finds its copy.
    assert run({"a": val(), "b": val()}, [("a", ["b"])])["a"][P1] == 1.0


@pytest.mark.rule("T-4")
def test_one_query_split_can_be_scored_against_several_reference_sets():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/320: one query split had one set only."""
    found = run(splits=[("train", ["train"]), ("train", ["val"]), ("train", ["val", "train"])])
    assert list(found) == ["train", "train_vs_val", "train_vs_train_and_val"]
    alone = run(splits=[("train", ["val"])])["train"]
    assert found["train_vs_val"] == alone
    assert found["train_vs_train_and_val"][P1] == 1 / 8


@pytest.mark.rule("T-4", "G-6")
@pytest.mark.parametrize(
    ("splits", "error", "message"),
    [
        ([("train", ["val"]), ("train", ["val"])], ContractError, "twice"),
        ([("train", ["val", "train"]), ("train", ["train", "val"])], ContractError, "twice"),
        ([("train", [])], ContractError, "at least one reference"),
        ([("nothing", ["train"])], KeyError, "nothing.*train.*val"),
        ([("train", ["nothing"])], KeyError, "nothing"),
        ([("train", "val")], TypeError, "references"),
        (["train"], TypeError, "query split"),
    ],
)
def test_wrong_splits_are_named(splits, error, message):
    with pytest.raises(error, match=message):
        run(splits=splits)


@pytest.mark.rule("T-4")
def test_references_may_be_a_tuple_and_repeat():
    assert run(splits=[("train", ("train", "val", "val", "train"))])["train"][P1] == 1 / 8


@pytest.mark.rule("X19")
def test_what_the_caller_passed_stays_as_it_was():
    inner = ["val", "train"]
    splits = [("train", inner), ("val", ["train"])]
    run(splits=splits)
    assert splits == [("train", ["val", "train"]), ("val", ["train"])]
    assert splits[0][1] is inner


@pytest.mark.rule("T-5")
def test_only_the_splits_in_use_are_embedded_and_each_once():
    datasets = {"train": train(), "val": val(), "test": val()}
    run(datasets, [("val", ["train"]), ("val", ["val"]), ("train", ["val"])])
    assert [d.asked for d in datasets.values()] == [8, 8, 0]


class Trunk(torch.nn.Linear):
    """A linear layer that notes in which mode it ran."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.modes = []

    def forward(self, x):
        self.modes.append((self.training, torch.is_grad_enabled()))
        return super().forward(x)


@pytest.mark.rule("T-6")
def test_models_run_in_eval_mode_without_grad_and_stay_in_it():
    trunk, embedder = Trunk(2, 3), Trunk(3, 2)
    make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, 1, trunk, embedder)
    assert trunk.modes == embedder.modes == [(False, False)]
    assert not trunk.training
    assert not embedder.training


@pytest.mark.rule("T-6")
def test_embeddings_alone_can_leave_the_mode():
    trunk = Trunk(2, 3)
    t = make_tester(GlobalEmbeddingSpaceTester)
    embeddings, _ = t.get_all_embeddings(train(), trunk, eval=False)
    assert trunk.modes == [(True, False)]
    assert trunk.training
    assert not embeddings.requires_grad
    t.get_all_embeddings(train(), trunk)
    assert not trunk.training


@pytest.mark.rule("T-7")
def test_the_trunk_alone_or_with_an_embedder():
    t = make_tester(GlobalEmbeddingSpaceTester)
    assert t.get_all_embeddings(train(), IDENTITY)[0].shape == (8, 2)
    assert t.get_all_embeddings(train(), IDENTITY, torch.nn.Linear(2, 3))[0].shape == (8, 3)
    t = make_tester(GlobalEmbeddingSpaceTester, use_trunk_output=True)
    assert t.get_all_embeddings(train(), IDENTITY, torch.nn.Linear(2, 3))[0].shape == (8, 2)


@pytest.mark.rule("T-8")
def test_rows_have_norm_one_unless_normalising_is_off():
    embeddings, _ = seen()
    assert torch.allclose(embeddings.norm(dim=1), torch.ones(8))
    embeddings, _ = seen(normalize_embeddings=False)
    assert embeddings[0].tolist() == [2, 0]


@pytest.mark.rule("T-8")
def test_a_zero_row_stays_zero_in_every_precision():
    for dtype in (torch.float16, torch.float32, torch.float64):
        t = make_tester(GlobalEmbeddingSpaceTester, dtype=dtype)
        data = Items(torch.tensor([[0.0, 0], [3, 4]]), [0, 0])
        embeddings, _ = t.get_all_embeddings(data, IDENTITY)
        assert embeddings.dtype == dtype
        assert embeddings[0].tolist() == [0, 0]
        assert embeddings[1].tolist() == pytest.approx([0.6, 0.8], abs=1e-3)


def wide(rows, seed=0):
    torch.manual_seed(seed)
    return Items(torch.randn(rows, 6) * torch.arange(1.0, 7), [i % 3 for i in range(rows)])


@pytest.mark.rule("T-9")
@pytest.mark.parametrize("normalize", [True, False])
def test_pca_standardises_projects_and_then_normalises(normalize):
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    data = wide(40)
    embeddings, _ = seen(datasets={"train": data}, pca=3, normalize_embeddings=normalize)
    assert embeddings.shape == (40, 3)
    expected = PCA(3).fit_transform(StandardScaler().fit_transform(data.columns[0].double().numpy()))
    # scikit-learn divides by the population's deviation, and axes have no sign.
    expected *= math.sqrt(39 / 40)
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(np.abs(embeddings.numpy()), np.abs(expected), atol=1e-5)
    pairwise = embeddings.double() @ embeddings.double().T
    assert np.allclose(pairwise, expected @ expected.T, atol=1e-4)


@pytest.mark.rule("T-10")
def test_query_and_reference_are_projected_to_one_basis():
    rising = Items(torch.tensor([[1.0, 1], [-1, -1], [3, 3], [-3, -3]]), [0, 1, 2, 3])
    falling = Items(torch.tensor([[1.0, -1], [-1, 1], [3, -3], [-3, 3]]), [0, 1, 2, 3])
    options = {"pca": 1, "normalize_embeddings": False, "splits": [("val", ["train"])]}
    both = {"train": rising, "val": falling}
    assert seen("val", datasets=both, **options)[0].abs().max() < 1e-6
    assert seen("train", datasets=both, **options)[0].abs().min() > 0.1
    # The same data under two names coincides whatever the sign of the axis.
    same = {"train": rising, "val": Items(*rising.columns)}
    assert run(same, [("val", ["train"])], pca=1, normalize_embeddings=False)["val"][f"{P1}_pca1"] == 1.0


@pytest.mark.rule("T-10")
def test_the_basis_is_fitted_on_all_reference_splits_together():
    from nearwise.testers.pca import PrincipalBasis

    a, b, query = wide(20, 1), wide(15, 2), wide(9, 3)
    datasets = {"a": a, "b": b, "q": query}
    options = {"datasets": datasets, "pca": 2, "normalize_embeddings": False}
    basis = PrincipalBasis.fit(torch.cat([a.columns[0], b.columns[0]]), 2)
    embeddings, _ = seen("q", splits=[("q", ["b"]), ("q", ["a"])], **options)
    assert torch.allclose(embeddings, basis.project(query.columns[0]), atol=1e-5)
    alone, _ = make_tester(GlobalEmbeddingSpaceTester, pca=2, normalize_embeddings=False).get_all_embeddings(
        query, IDENTITY
    )
    assert torch.allclose(alone, PrincipalBasis.fit(query.columns[0], 2).project(query.columns[0]), atol=1e-5)


@pytest.mark.rule("T-11")
def test_a_constant_column_does_not_make_pca_fail():
    rows = torch.cat([torch.randn(9, 2), torch.full((9, 1), 5.0)], dim=1)
    embeddings, _ = seen(datasets={"train": Items(rows, list(range(9)))}, pca=2)
    assert embeddings.isfinite().all()


@pytest.mark.rule("T-11")
@pytest.mark.parametrize(("rows", "pca"), [(40, 7), (4, 5)])
def test_pca_with_too_few_rows_or_columns_is_refused(rows, pca):
    with pytest.raises(ValueError, match=rf"pca must be at most .* got {pca} for {rows} × 6"):
        run({"train": wide(rows)}, pca=pca)


@pytest.mark.rule("X2")
def test_pca_needs_no_faiss(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "faiss", None)
    assert run({"train": wide(20)}, pca=2)["train"].keys() == {"epoch", f"{P1}_pca2"}


@pytest.mark.rule("X5", "T-24")
def test_keys_end_in_the_pca_unless_that_is_switched_off():
    t = make_tester(GlobalEmbeddingSpaceTester, pca=16)
    assert t.accuracies_keyname("NMI") == "NMI_level0_pca16"
    assert t.accuracies_keyname("NMI", label_hierarchy_level=2) == "NMI_level2_pca16"
    assert t.accuracies_keyname("NMI", average=True) == "AVERAGE_NMI_pca16"
    plain = make_tester(GlobalEmbeddingSpaceTester, pca=16, pca_suffix=False)
    assert plain.accuracies_keyname("NMI") == "NMI_level0"
    assert plain.accuracies_keyname("NMI", average=True) == "AVERAGE_NMI"
    assert "_pca16" in plain.description_suffixes("accuracies")
    assert set(run({"train": wide(20)}, pca=2, pca_suffix=False)["train"]) == {"epoch", P1}


@pytest.mark.rule("T-24")
def test_keys_name_the_metric_and_the_level():
    t = make_tester(GlobalEmbeddingSpaceTester)
    assert t.accuracies_keyname("NMI") == "NMI_level0"
    assert t.accuracies_keyname("NMI", label_hierarchy_level=[0, 1]) == "NMI_level0_1"
    assert t.accuracies_keyname("NMI", label_hierarchy_level=[1]) == "NMI_level1"
    assert t.accuracies_keyname("NMI", average=True) == "AVERAGE_NMI"


@pytest.mark.rule("T-25")
def test_the_description_says_what_sets_results_apart():
    t = make_tester(GlobalEmbeddingSpaceTester, pca=1, label_hierarchy_level="all")
    expected = "accuracies_pca1_normalized_GlobalEmbeddingSpaceTester_level_all"
    assert t.description_suffixes("accuracies") == expected
    t = make_tester(
        GlobalEmbeddingSpaceTester,
        normalize_embeddings=False,
        use_trunk_output=True,
        label_hierarchy_level=[0, 1],
        calculator=AccuracyCalculator(avg_of_avgs=True),
    )
    expected = "accuracies_trunk_GlobalEmbeddingSpaceTester_level_0_1_avg_of_avgs"
    assert t.description_suffixes("accuracies") == expected


@pytest.mark.rule("T-15")
def test_one_key_for_each_level_and_the_average_of_several():
    found = run({"train": family()}, label_hierarchy_level="all")["train"]
    assert found == {"epoch": 1, P1: 0.75, "precision_at_1_level1": 0.75, "AVERAGE_precision_at_1": 0.75}
    assert run({"train": family()}, label_hierarchy_level=[0, 1])["train"] == found
    assert run({"train": family()}, label_hierarchy_level=[1])["train"] == {"epoch": 1, "precision_at_1_level1": 0.75}
    assert run({"train": family()}, label_hierarchy_level=1)["train"] == {"epoch": 1, "precision_at_1_level1": 0.75}


@pytest.mark.rule("T-15", "G-6")
@pytest.mark.parametrize("level", [2, -1, [0, 2], ()])
def test_a_level_that_the_labels_lack_is_refused(level):
    with pytest.raises(ContractError, match="label_hierarchy_level must be from 0 to 1, as the labels have 2 levels"):
        run({"train": family()}, label_hierarchy_level=level)


@pytest.mark.rule("T-16")
def test_results_for_each_class_have_no_average_over_levels():
    calculator = AccuracyCalculator(include=("precision_at_1",), return_per_class=True)
    found = run({"train": family()}, label_hierarchy_level="all", calculator=calculator)["train"]
    assert len(found[P1]) == 4
    assert len(found["precision_at_1_level1"]) == 2
    assert "AVERAGE_precision_at_1" not in found


@pytest.mark.rule("T-17")
def test_the_hook_is_called_once_and_sees_everything():
    calls = []

    def hook(t):
        embeddings, labels = t.embeddings_and_labels["train"]
        calls.append((embeddings.shape, labels.shape, dict(t.reference_split_names), dict(t.all_accuracies)))

    t = make_tester(GlobalEmbeddingSpaceTester, end_of_testing_hook=hook)
    found = t.test({"train": train(), "val": val()}, 4, IDENTITY)
    assert calls == [((8, 2), (8, 1), {"train": ["train"], "val": ["val"]}, found)]
    assert not hasattr(t, "embeddings_and_labels")
    assert t.all_accuracies is found


@pytest.mark.rule("T-17")
def test_embeddings_are_let_go_even_if_the_hook_fails():
    def hook(t):
        raise RuntimeError("hook")

    t = make_tester(GlobalEmbeddingSpaceTester, end_of_testing_hook=hook)
    with pytest.raises(RuntimeError, match="hook"):
        t.test({"train": train()}, 1, IDENTITY)
    assert not hasattr(t, "embeddings_and_labels")


@pytest.mark.rule("T-18")
def test_without_a_hook_the_results_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="nearwise.testers"):
        run({"train": train()})
    assert "'precision_at_1_level0': 1.0" in caplog.text


@pytest.mark.rule("T-19")
def test_a_getter_finds_data_and_labels_in_a_batch():
    class Dicts(Items):
        def __getitem__(self, i):
            x, y = super().__getitem__(i)
            return {"x": x, "y": y}

    data = Dicts(*train().columns)
    assert run({"train": data}, data_and_label_getter=lambda batch: (batch["x"], batch["y"]))["train"][P1] == 1.0


@pytest.mark.rule("T-20")
def test_data_is_cast_and_moved():
    given = []

    def model(x):
        given.append((x.dtype, x.device.type))
        return x

    t = make_tester(GlobalEmbeddingSpaceTester, dtype=torch.float16, data_device=torch.device("cpu"))
    t.test({"train": train()}, 1, model)
    assert given == [(torch.float16, "cpu")]
    assert make_tester(GlobalEmbeddingSpaceTester, dtype=torch.float64).get_all_embeddings(train(), IDENTITY)[
        0
    ].dtype == (torch.float64)


@pytest.mark.rule("T-20")
def test_data_in_containers_is_cast_and_moved_too():
    class Nested(Items):
        def __getitem__(self, i):
            x, y = super().__getitem__(i)
            return {"image": x, "parts": [x, x]}, y

    t = make_tester(GlobalEmbeddingSpaceTester, dtype=torch.float64, normalize_embeddings=False)
    embeddings, _ = t.get_all_embeddings(Nested(*train().columns), lambda d: d["image"] + d["parts"][0])
    assert embeddings.dtype == torch.float64
    assert embeddings[0].tolist() == [4, 0]


@pytest.mark.rule("T-21")
def test_a_visualizer_reduces_each_split_and_its_hook_gets_each_level():
    class Halves:
        def fit_transform(self, x):
            assert isinstance(x, np.ndarray)
            return x / 2

    calls = []
    visualizer = Halves()
    t = make_tester(
        GlobalEmbeddingSpaceTester,
        visualizer=visualizer,
        visualizer_hook=lambda *arguments: calls.append(arguments),
        label_hierarchy_level=[0, 1],
    )
    t.test({"train": family()}, 7, IDENTITY)
    assert [(c[0] is visualizer, c[1].shape, c[3], c[4], c[5]) for c in calls] == [
        (True, (8, 2), "train", "Halves_level0", 7),
        (True, (8, 2), "train", "Halves_level1", 7),
    ]
    assert [c[2].tolist() for c in calls] == np.array(FAMILY_LABELS).T.tolist()


@pytest.mark.rule("T-22")
@pytest.mark.parametrize("epoch", [-1, 0, "baseline", None])
def test_the_epoch_is_only_recorded(epoch):
    found = make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, epoch, IDENTITY)
    assert found == {"train": {"epoch": epoch, P1: 1.0}}


@pytest.mark.rule("T-23")
def test_results_do_not_depend_on_batches_or_workers():
    torch.manual_seed(0)
    data = Items(torch.randn(50, 4), torch.randint(0, 5, (50,)))
    whole = run({"val": TensorDataset(*data.columns)}, include=(), dataloader_num_workers=2)
    for options in ({"batch_size": 3}, {"batch_size": 1}, {"dataloader_num_workers": 2, "batch_size": 7}):
        assert run({"val": data}, include=(), **options) == whole


@pytest.mark.rule("T-26")
def test_datasets_that_cannot_be_embedded_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.zeros(2), 0

    with pytest.raises(ValueError, match="at least one sample"):
        run({"train": TensorDataset(torch.empty(0, 2), torch.empty(0))})
    with pytest.raises(TypeError, match="__len__"):
        run({"train": Stream()})


@pytest.mark.rule("T-26", "T-23")
def test_a_collation_that_drops_samples_is_noticed():
    def dropping(samples):
        return torch.stack([x for x, _ in samples[1:]]), torch.tensor([y for _, y in samples[1:]])

    with pytest.raises(ValueError, match="8 samples and yields 7"):
        make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, 1, IDENTITY, collate_fn=dropping)


def test_a_model_that_returns_no_matrix_is_refused():
    with pytest.raises(ValueError, match=r"\(batch, D\)"):
        make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, 1, lambda x: x[:, 0])
    with pytest.raises(TypeError, match="tensor"):
        make_tester(GlobalEmbeddingSpaceTester).test({"train": train()}, 1, lambda x: (x, x))


@pytest.mark.rule("T-0")
def test_a_collate_function_reaches_the_loader():
    def doubled(samples):
        return torch.stack([x for x, _ in samples]) * 2, torch.tensor([y for _, y in samples])

    t = make_tester(GlobalEmbeddingSpaceTester, normalize_embeddings=False)
    assert t.get_all_embeddings(train(), IDENTITY, collate_fn=doubled)[0][0].tolist() == [4, 0]
    found = {}
    t.end_of_testing_hook = lambda t: found.update(t.embeddings_and_labels)
    t.test({"train": train()}, 1, IDENTITY, collate_fn=doubled)
    assert found["train"][0][0].tolist() == [4, 0]


@pytest.mark.rule("T-0")
def test_embeddings_can_be_had_as_arrays():
    embeddings, labels = make_tester(GlobalEmbeddingSpaceTester).get_all_embeddings(
        train(), IDENTITY, return_as_numpy=True
    )
    assert isinstance(embeddings, np.ndarray)
    assert labels.tolist() == [[y] for y in train().columns[1]]


@pytest.mark.rule("T-0", "L-2")
def test_the_progress_bar_is_off_unless_asked_for(capfd):
    run({"train": train()})
    assert capfd.readouterr().err == ""
    run({"train": train()}, progress=True)
    assert "embedding" in capfd.readouterr().err


@pytest.mark.rule("T-0")
def test_a_tester_can_search_by_the_distance_of_the_training():
    data, found = wide(30), {}
    rows, labels = data.columns
    for distance in (LpDistance(), SNRDistance()):
        calculator = AccuracyCalculator(include=("precision_at_1",), knn_func=CustomKNN(distance))
        found[type(distance)] = run({"train": data}, calculator=calculator, normalize_embeddings=False)["train"][P1]
        assert found[type(distance)] == calculator.get_accuracy(rows, labels)["precision_at_1"]
    assert found[LpDistance] != found[SNRDistance]


@pytest.mark.rule("T-0", "T-27")
def test_splits_and_sides_can_be_chosen_by_a_subclass():
    class Crossed(GlobalEmbeddingSpaceTester):
        def get_splits_to_compute_embeddings(self, dataset_dict, splits_to_eval):
            return [("val", ["train"])], ["train", "val"]

        def set_reference_and_query(self, embeddings_and_labels, query_split_name, reference_split_names):
            query, labels, *reference = super().set_reference_and_query(
                embeddings_and_labels, query_split_name, reference_split_names
            )
            return query[:1], labels[:1], *reference

    found = make_tester(Crossed).test({"train": train(), "val": val()}, 1, IDENTITY)
    assert found == {"val": {"epoch": 1, P1: 0.0}}
    with pytest.raises(NotImplementedError):
        make_tester(BaseTester).test({"train": train()}, 1, IDENTITY)


def test_angles_of_the_fixture_are_as_documented():
    assert points(FAMILY_ANGLES)[0].tolist() == [2, 0]
