"""Ours inside pytorch-metric-learning 2.9, its parts inside ours, and programs whose imports were replaced."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest
import torch
from pytorch_metric_learning import distances as their_distances
from pytorch_metric_learning import testers as their_testers
from pytorch_metric_learning.utils import accuracy_calculator as their_calculator
from pytorch_metric_learning.utils import inference as their_inference
from torch.utils.data import TensorDataset

from nearwise import distances, evaluation, testers
from nearwise.compat import pytorch_metric_learning as compat

ORIGIN = {
    "AccuracyCalculator": their_calculator,
    "precision_at_k": their_calculator,
    "CosineSimilarity": their_distances,
    "DotProductSimilarity": their_distances,
    "LpDistance": their_distances,
    "SNRDistance": their_distances,
    "CustomKNN": their_inference,
    "FaissKNN": their_inference,
    "FaissKMeans": their_inference,
    "InferenceModel": their_inference,
    "MatchFinder": their_inference,
    "BaseTester": their_testers,
    "GlobalEmbeddingSpaceTester": their_testers,
    "GlobalTwoStreamEmbeddingSpaceTester": their_testers,
    "WithSameParentLabelTester": their_testers,
}
RANKED = ("mean_average_precision", "mean_average_precision_at_r", "precision_at_1", "r_precision")
DISTANCES = ["LpDistance", "SNRDistance", "DotProductSimilarity", "CosineSimilarity"]


def blobs(rng, n=60, d=6, classes=5):
    """Rows without ties and their labels, as tensors."""
    labels = np.arange(n) % classes
    rows = rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d))
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(labels)


def close(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, err_msg=name)


@pytest.mark.rule("G-10")
@pytest.mark.parametrize("name", ORIGIN)
def test_every_name_takes_the_parameters_of_the_original(name):
    """In the same positions, so that a call that fitted there fits here."""
    theirs, ours = getattr(ORIGIN[name], name), getattr(compat, name)
    pairs = [(theirs, ours)]
    if inspect.isclass(theirs) and name not in DISTANCES:
        for method in vars(theirs):
            if not method.startswith("_") and callable(getattr(theirs, method)) and hasattr(ours, method):
                pairs.append((getattr(theirs, method), getattr(ours, method)))
    for original, stand_in in pairs:
        wanted = [p for p in inspect.signature(original).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
        offered = inspect.signature(stand_in).parameters
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in offered.values()):
            continue
        # The count of clusters has its documented name; nothing reads the tag.
        names = [p.name.replace("nmb_clusters", "num_clusters") for p in wanted if p.name != "tag_suffix"]
        assert list(offered)[: len(names)] == names, original


@pytest.mark.rule("G-10", "X11")
def test_defaults_are_those_of_the_original(rng):
    rows = blobs(rng)[0]
    torch.testing.assert_close(compat.DotProductSimilarity()(rows), their_distances.DotProductSimilarity()(rows))
    assert distances.DotProductSimilarity() != compat.DotProductSimilarity()
    plain = compat.DotProductSimilarity(normalize_embeddings=False)(rows)
    torch.testing.assert_close(plain, rows @ rows.T, rtol=1e-5, atol=1e-5)
    assert compat.AccuracyCalculator().get_curr_metrics() == their_calculator.AccuracyCalculator().get_curr_metrics()
    with pytest.raises(NotImplementedError):
        compat.AccuracyCalculator(label_comparison_fn=lambda x, y: x == y)
    tester = compat.GlobalEmbeddingSpaceTester(pca=2)
    assert tester.accuracies_keyname("NMI") == their_testers.GlobalEmbeddingSpaceTester(pca=2).accuracies_keyname("NMI")
    assert isinstance(tester.accuracy_calculator, compat.AccuracyCalculator)
    given = their_calculator.AccuracyCalculator(include=("r_precision",))
    assert compat.BaseTester(accuracy_calculator=given).accuracy_calculator is given


@pytest.mark.rule("G-10")
@pytest.mark.parametrize("name", DISTANCES)
def test_distances_take_the_keywords_of_the_original(name, rng):
    rows, other = blobs(rng)[0], blobs(rng)[0]
    options = (
        [{"power": 2}] if name == "CosineSimilarity" else [{"normalize_embeddings": False}, {"p": 1}, {"power": 2}]
    )
    for keywords in [{}, *options]:
        ours, theirs = getattr(compat, name)(**keywords), getattr(their_distances, name)(**keywords)
        torch.testing.assert_close(ours(rows, other), theirs(rows, other), rtol=1e-4, atol=1e-4)
        assert ours.is_inverted == theirs.is_inverted
        torch.testing.assert_close(ours.pairwise_distance(rows, other), ours(rows, other).diagonal())
        matrix = ours(rows, other)
        for method in ("smallest_dist", "largest_dist"):
            assert getattr(ours, method)(matrix) == getattr(theirs, method)(matrix)
            nearest = getattr(ours, method)(matrix, dim=1)
            assert torch.equal(nearest.indices, getattr(theirs, method)(matrix, dim=1).indices)
        assert ours.margin(2, 5) == theirs.margin(2, 5)
        # A search runs in the core all the same.
        assert distances.resolve(ours).formula is not None


def our_searches():
    squared = distances.LpDistance(normalize_embeddings=False, power=2)
    yield evaluation.CustomKNN(squared)
    yield evaluation.CustomKNN(squared, batch_size=7)
    yield compat.CustomKNN(their_distances.LpDistance(normalize_embeddings=False, power=2), 16)
    yield evaluation.FaissKNN()


@pytest.mark.rule("G-10", "K-1", "K-2")
@pytest.mark.parametrize("knn", list(our_searches()), ids=["exact", "in batches", "by their distance", "faiss"])
@pytest.mark.parametrize("k", [None, 3, "max_bin_count"])
def test_our_searches_serve_their_calculator(knn, k, rng):
    rows, labels = blobs(rng)
    labels[-1] = 99  # alone
    include = (*RANKED, "mean_reciprocal_rank")
    theirs = their_calculator.AccuracyCalculator(include, k=k, device=torch.device("cpu"))
    with_ours = their_calculator.AccuracyCalculator(include, k=k, device=torch.device("cpu"), knn_func=knn)
    ours = evaluation.AccuracyCalculator(include, k=k, knn_func=knn)
    for given in [(rows, labels), (rows[:20], labels[:20], rows, labels, True), (rows[:20], labels[:20], rows, labels)]:
        expected = theirs.get_accuracy(*given)
        close(with_ours.get_accuracy(*given), expected)
        close(ours.get_accuracy(*given), expected)


@pytest.mark.rule("G-10")
def test_our_clustering_serves_their_calculator(rng):
    rows, labels = blobs(rng, n=400)
    scores = [
        their_calculator.AccuracyCalculator(("NMI", "AMI"), device=torch.device("cpu"), kmeans_func=kmeans(niter=20))
        for kmeans in (their_inference.FaissKMeans, evaluation.FaissKMeans)
    ]
    close(scores[1].get_accuracy(rows, labels), scores[0].get_accuracy(rows, labels))


def scored_by(tester_class, calculator, data, **options):
    tester = tester_class(
        accuracy_calculator=calculator, dataloader_num_workers=0, data_device=torch.device("cpu"), **options
    )
    splits = [("train", ["train"]), ("val", ["train", "val"])]
    if "TwoStream" in tester_class.__name__:
        splits = [("train", ["train"])]
    return tester.test(data, 3, torch.nn.Identity(), splits_to_eval=splits)


@pytest.mark.rule("G-10", "X10")
@pytest.mark.parametrize("name", ["GlobalEmbeddingSpaceTester", "WithSameParentLabelTester"])
@pytest.mark.parametrize("knn", [None, "snr", "faiss"])
def test_our_parts_serve_their_testers(name, knn, rng):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/368: the distance of the training."""
    rows, labels = blobs(rng, n=80)
    levels = torch.stack([labels, labels % 2], 1)
    data = {"train": TensorDataset(rows[:40], levels[:40]), "val": TensorDataset(rows[40:], levels[40:])}
    searches = {
        None: (None, None),
        "snr": (
            their_inference.CustomKNN(their_distances.SNRDistance()),
            evaluation.CustomKNN(distances.SNRDistance()),
        ),
        "faiss": (their_inference.FaissKNN(), evaluation.FaissKNN()),
    }
    theirs, ours = searches[knn]
    cpu = torch.device("cpu")
    expected = scored_by(
        getattr(their_testers, name), their_calculator.AccuracyCalculator(RANKED, knn_func=theirs, device=cpu), data
    )
    calculators = [
        their_calculator.AccuracyCalculator(RANKED, knn_func=ours, device=cpu),
        evaluation.AccuracyCalculator(RANKED, knn_func=ours),
        compat.AccuracyCalculator(RANKED, knn_func=ours),
    ]
    for calculator in calculators:
        for tester in (getattr(their_testers, name), getattr(compat, name)):
            found = scored_by(tester, calculator, data)
            assert found.keys() == expected.keys()
            for split in expected:
                close(found[split], expected[split])


@pytest.mark.rule("G-10")
def test_the_two_stream_tester_agrees(rng):
    anchors, labels = blobs(rng, n=40)
    data = {"train": TensorDataset(anchors, anchors + 0.3 * torch.randn(40, 6), labels)}
    name = "GlobalTwoStreamEmbeddingSpaceTester"
    expected = scored_by(getattr(their_testers, name), their_calculator.AccuracyCalculator(RANKED), data)
    found = scored_by(getattr(compat, name), compat.AccuracyCalculator(RANKED), data)
    close(found["train"], expected["train"])


def exact_search():
    return evaluation.CustomKNN("sqeuclidean")


def stored_in_faiss():
    return evaluation.FaissKNN(reset_before=False, reset_after=False)


@pytest.mark.rule("G-10", "X8")
@pytest.mark.parametrize("make", [exact_search, stored_in_faiss])
def test_our_parts_serve_their_inference_model(make, tmp_path, rng):
    rows = blobs(rng, n=70)[0]
    matcher = compat.MatchFinder(compat.CosineSimilarity(), threshold=0.5)
    options = {"data_device": torch.device("cpu")}
    models = [
        their_inference.InferenceModel(
            torch.nn.Identity(),
            match_finder=their_inference.MatchFinder(their_distances.CosineSimilarity(), threshold=0.5),
            **options,
        ),
        their_inference.InferenceModel(torch.nn.Identity(), match_finder=matcher, knn_func=make(), **options),
        compat.InferenceModel(torch.nn.Identity(), match_finder=matcher, knn_func=make(), **options),
    ]
    answers = []
    for number, model in enumerate(models):
        model.train_knn(rows[:50], batch_size=16)
        model.add_to_knn(TensorDataset(rows[50:], torch.zeros(20)), batch_size=16)
        path = str(tmp_path / f"knn{number}")
        model.save_knn_func(path)
        model.load_knn_func(path)
        distances_found, indices = model.get_nearest_neighbors(rows[:5], 4)
        answers.append(
            {
                "indices": indices.tolist(),
                "matrix": model.get_matches(rows[:9], rows).tolist(),
                "tuples": [(int(a), int(b)) for a, b in model.get_matches(list(rows[:9]), return_tuples=True)],
                "threshold": model.get_matches(rows[:9], rows, threshold=0).tolist(),
                "pair": model.is_match(rows[:1], rows[:1]),
                "pairs": model.is_match(rows[:9], rows[9:18]).tolist(),
            }
        )
        assert isinstance(distances_found, torch.Tensor)
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
    assert answers[0]["pair"] is True


@pytest.mark.rule("G-10")
def test_the_inference_model_needs_no_faiss(monkeypatch, rng):
    monkeypatch.setitem(importlib.import_module("sys").modules, "faiss", None)
    rows = blobs(rng)[0]
    trunk = torch.nn.Linear(6, 4).double()
    model = compat.InferenceModel(trunk, dtype=torch.float64, normalize_embeddings=False, data_device="cpu")
    model.train_knn(list(rows))
    assert model.get_nearest_neighbors(rows[:7], 1).indices[:, 0].tolist() == list(range(7))
    assert model.get_nearest_neighbors(rows[:7], 1).distances.dtype == torch.float64
    assert not trunk.training
    with pytest.raises(TypeError, match="inputs must be a tensor, a list or a dataset, got int"):
        model.train_knn(3)


@pytest.mark.rule("G-7", "G-10")
@pytest.mark.parametrize("name", DISTANCES)
def test_their_distances_serve_ours(name, rng):
    rows, labels = blobs(rng)
    theirs = getattr(their_distances, name)()
    ours = getattr(compat, name)()
    for batch_size in (None, 7):
        found = evaluation.CustomKNN(theirs, batch_size)(rows, 4, rows, True)
        expected = evaluation.CustomKNN(ours)(rows, 4, rows, True)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.distances, expected.distances)
    calculators = [evaluation.AccuracyCalculator(knn_func=evaluation.CustomKNN(each)) for each in (theirs, ours)]
    assert calculators[0].get_accuracy(rows, labels) == calculators[1].get_accuracy(rows, labels)
    threshold = float(ours(rows).median())
    for finder in (evaluation.MatchFinder, compat.MatchFinder):
        matrix = np.asarray(finder(theirs, threshold).get_match_matrix(rows))
        np.testing.assert_array_equal(matrix, np.asarray(finder(ours, threshold).get_match_matrix(rows)))
    pairs = compat.get_matching_pairs(theirs, rows, threshold=threshold, return_tuples=True)
    assert pairs == [tuple(pair) for pair in np.argwhere(matrix).tolist()]
    np.testing.assert_array_equal(compat.get_matching_pairs(theirs, rows, threshold=threshold), matrix)


@pytest.mark.rule("G-10", "A-14")
def test_arrays_and_tensors_may_be_mixed_as_there(rng):
    rows, labels = blobs(rng)
    expected = evaluation.AccuracyCalculator().get_accuracy(rows, labels)
    calculator = compat.AccuracyCalculator(exclude=("NMI", "AMI"))
    apart = rows.numpy(), labels.numpy()
    for given in [(rows, apart[1]), (apart[0], labels), (rows, labels, *apart, True), (*apart, rows, labels, True)]:
        assert calculator.get_accuracy(*given) == expected
    # The wider precision holds for both sides; the original rounds to float32.
    assert calculator.get_accuracy(rows.double(), labels, *apart, True) == expected
    close_rows = torch.tensor([[0.0], [1.0], [1 + 2.0**-40]], dtype=torch.float64), torch.tensor([1, 0, 1])
    first = compat.AccuracyCalculator(include=("precision_at_1",))
    nearest = first.get_accuracy(torch.tensor([[2.0]]), torch.tensor([1]), *close_rows)
    assert nearest == {"precision_at_1": 1.0}
    assert first.get_accuracy(torch.ones(1, 1).half(), [1], torch.ones(2, 1).bfloat16(), [1, 0])["precision_at_1"] == 1


PROGRAM = """
class WithPrecisionAt3(AccuracyCalculator):
    def calculate_precision_at_3(self, knn_labels, query_labels, not_lone_query_mask, **kwargs):
        labels, own = knn_labels[not_lone_query_mask], query_labels[not_lone_query_mask]
        return precision_at_k(
            labels, own[:, None], 3, self.avg_of_avgs, self.return_per_class, self.label_comparison_fn
        )

    def requires_knn(self):
        return super().requires_knn() + ["precision_at_3"]


answers = {}
calculator = WithPrecisionAt3(
    exclude=("NMI", "AMI", "mean_reciprocal_rank"), knn_func=CustomKNN(LpDistance(p=1), batch_size=16), k=10
)
answers["custom"] = calculator.get_accuracy(rows, labels)
answers["by class"] = AccuracyCalculator(
    include=("precision_at_1", "r_precision"), return_per_class=True, knn_func=CustomKNN(SNRDistance())
).get_accuracy(rows[:30], labels[:30], rows, labels, True)
averaging = AccuracyCalculator(("r_precision", "precision_at_1"), (), True)
answers["averages"] = averaging.get_accuracy(rows, labels, include=("r_precision",))
answers["faiss"] = FaissKNN()(rows, 3, rows, True)[1].tolist()
answers["clusters"] = len(set(FaissKMeans(niter=5)(rows, 4).tolist()))
finder = MatchFinder(distance=LpDistance(p=1), threshold=1.0)
answers["matches"] = finder.get_matching_pairs(rows[:9], rows).tolist()
answers["dot"] = CustomKNN(DotProductSimilarity())(rows, 3, rows)[1].tolist()
tester = GlobalEmbeddingSpaceTester(
    accuracy_calculator=AccuracyCalculator(include=("mean_average_precision",)), dataloader_num_workers=0
)
answers["tester"] = dict(tester.test({"val": TensorDataset(rows, labels)}, 1, torch.nn.Identity()))
"""


@pytest.mark.rule("G-10")
def test_a_program_gives_the_same_with_its_imports_replaced(rng):
    rows, labels = blobs(rng)
    answers = []
    for module_of in (ORIGIN.__getitem__, lambda name: compat):
        names = {name: getattr(module_of(name), name) for name in ORIGIN}
        names |= {"rows": rows, "labels": labels, "torch": torch, "TensorDataset": TensorDataset}
        exec(PROGRAM, names)
        answers.append(names["answers"])
    theirs, ours = answers
    for part in ("custom", "by class", "averages"):
        close(ours[part], theirs[part])
    close(ours["tester"]["val"], theirs["tester"]["val"])
    for part in ("faiss", "clusters", "matches", "dot"):
        assert ours[part] == theirs[part], part


@pytest.mark.rule("T-27")
@pytest.mark.parametrize(
    "name", ["get_splits_to_compute_embeddings", "set_reference_and_query", "get_all_embeddings", "test"]
)
def test_what_a_tester_of_ones_own_overrides_has_the_signature_of_the_original(name):
    ours, theirs = (
        list(inspect.signature(getattr(base.BaseTester, name)).parameters) for base in (testers, their_testers)
    )
    assert ours == theirs


@pytest.mark.rule("T-27")
def test_the_label_mapper_has_the_signature_of_the_original():
    from pytorch_metric_learning.utils.common_functions import LabelMapper

    for name in ("__init__", "map"):
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (testers.LabelMapper, LabelMapper))
        assert list(ours.parameters) == list(theirs.parameters)
