"""`nearwise evaluate`: the numbers of the library, from every format, and what is said when it cannot be done."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearwise
from nearwise.cli import main, pairs
from nearwise.cli.strict_json import strict_json
from nearwise.distances import resolve
from nearwise.evaluation import AccuracyCalculator, CustomKNN

RNG = np.random.default_rng(11)
LABELS = np.array(["lone"] + ["cat", "dog", "newt", "cat", "dog", "ox"] * 10)
ROWS = RNG.standard_normal((61, 6)).astype(np.float32) + (LABELS == "cat")[:, None]
FIVE = [
    "precision_at_1",
    "r_precision",
    "mean_average_precision_at_r",
    "mean_average_precision",
    "mean_reciprocal_rank",
]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def evaluated(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    output = tmp_path / "out.json"
    assert main(["evaluate", *map(str, arguments), "--json", str(output)]) == 0
    found: dict[str, Any] = json.loads(output.read_text(), parse_constant=refuse)
    return found


def accuracies(*data: Any, distance: str = "euclidean", names: list[str] | None = None, **options: Any) -> Any:
    calculator = AccuracyCalculator(include=names or FIVE, knn_func=CustomKNN(distance), **options)
    return calculator.get_accuracy(*data)


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", embeddings=ROWS, labels=LABELS)
    return tmp_path / "a.npz"


@pytest.mark.rule("V-1")
def test_the_numbers_are_the_library_s_bit_for_bit(tmp_path: Path, npz: Path) -> None:
    found = evaluated(tmp_path, npz, "--distance", "cosine", "-k", 7)
    names = [*FIVE, "precision_at_7", "recall_at_7"]
    expected = accuracies(ROWS, LABELS, distance="cosine", names=names)
    assert list(found["metrics"]) == names
    assert found["metrics"] == expected
    assert found["class_means"] == accuracies(ROWS, LABELS, distance="cosine", names=names, avg_of_avgs=True)
    by_class = accuracies(ROWS, LABELS, distance="cosine", names=names, return_per_class=True)
    assert [each["label"] for each in found["classes"]] == ["cat", "dog", "newt", "ox"]
    for name in names:
        assert [each["metrics"][name] for each in found["classes"]] == by_class[name]
    assert [each["queries"] for each in found["classes"]] == [20, 20, 10, 10]
    assert [each["relevant"] for each in found["classes"]] == [19, 19, 9, 9]


@pytest.mark.rule("V-1")
def test_curves_are_precision_and_recall_at_every_k(tmp_path: Path, npz: Path) -> None:
    curves = evaluated(tmp_path, npz, "-k", 5)["curves"]
    assert curves["k"] == [1, 2, 3, 4, 5]
    for kind in ("precision", "recall"):
        names = [f"{kind}_at_{k}" for k in curves["k"]]
        expected = accuracies(ROWS, LABELS, names=names)
        assert curves[kind] == [expected[name] for name in names]


def test_long_curves_are_thinned_but_reach_k(tmp_path: Path) -> None:
    curves = evaluated(tmp_path, "-k", 1634, "--metrics", "precision_at_1")["curves"]
    assert curves["k"][0] == 1
    assert curves["k"][-1] == 1634
    assert len(curves["k"]) <= 50
    assert curves["recall"][-1] == 1


def test_rows_whose_label_no_other_has_are_left_out_and_counted(tmp_path: Path, npz: Path) -> None:
    found = evaluated(tmp_path, npz)
    assert found["queries"] == {"all": 61, "evaluated": 60, "left_out": 1}
    assert found["left_out_labels"] == ["lone"]


@pytest.mark.rule("V-1")
def test_a_reference_is_searched_instead(tmp_path: Path, npz: Path) -> None:
    query, labels = ROWS[:9] + np.float32(0.1), LABELS[:9]
    np.savez(tmp_path / "query.npz", embeddings=query, labels=labels)
    found = evaluated(tmp_path, tmp_path / "query.npz", "--reference", npz, "--metrics", ",".join(FIVE))
    assert found["metrics"] == accuracies(query, labels, ROWS, LABELS)
    assert found["reference"]["rows"] == 61
    shown = found["examples"]["right"]["shown"] + found["examples"]["wrong"]["shown"]
    expected = nearwise.knn(query, ROWS, 5)
    assert len(shown) == 9
    for each in shown:
        assert [near["index"] for near in each["neighbors"]] == expected.indices[each["query"]].tolist()


def test_a_reference_that_begins_with_the_query_finds_no_row_itself(tmp_path: Path, npz: Path) -> None:
    np.savez(tmp_path / "query.npz", embeddings=ROWS[:30], labels=LABELS[:30])
    asked = (tmp_path / "query.npz", "--reference", npz, "--metrics", "precision_at_1")
    expected = accuracies(ROWS[:30], LABELS[:30], ROWS, LABELS, True, names=["precision_at_1"])
    assert evaluated(tmp_path, *asked, "--ref-includes-query")["metrics"] == expected
    assert evaluated(tmp_path, *asked)["metrics"] == {"precision_at_1": 1.0}
    for each in evaluated(tmp_path, *asked, "--ref-includes-query")["examples"]["right"]["shown"]:
        assert each["query"] not in [near["index"] for near in each["neighbors"]]


def test_a_narrower_query_is_widened_to_the_reference(tmp_path: Path, npz: Path) -> None:
    query = ROWS[:9].astype(np.float16)
    np.savez(tmp_path / "query.npz", embeddings=query, labels=LABELS[:9])
    found = evaluated(tmp_path, tmp_path / "query.npz", "--reference", npz, "--metrics", ",".join(FIVE))
    assert found["metrics"] == accuracies(query.astype(np.float32), LABELS[:9], ROWS, LABELS)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".safetensors"])
def test_labels_are_found_beside_the_embeddings(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    numbers = np.unique(LABELS, return_inverse=True)[1].astype(np.int64)
    if suffix == ".npz":
        np.savez(path, x=ROWS, classes=numbers)
    elif suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"embeddings": ROWS, "labels": numbers}, path)
    else:
        import pyarrow
        import pyarrow.parquet

        column = pyarrow.array(list(ROWS), pyarrow.list_(pyarrow.float32()))
        table = pyarrow.table({"embeddings": column, "row": np.arange(61), "label": numbers})
        pyarrow.parquet.write_table(table, path)
    found = evaluated(tmp_path, path, "--metrics", ",".join(FIVE))
    assert found["metrics"] == accuracies(ROWS, numbers)
    assert [each["label"] for each in found["classes"]] == [0, 1, 3, 4]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".npz:second", ".txt", ".parquet:label"])
def test_labels_may_be_a_file_of_their_own(tmp_path: Path, suffix: str) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    path = tmp_path / f"labels{suffix}"
    file = tmp_path / f"labels{suffix.partition(':')[0]}"
    if file.suffix == ".npy":
        np.save(file, LABELS)
    elif file.suffix == ".npz":
        np.savez(file, labels=LABELS if suffix == ".npz" else LABELS[::-1], second=LABELS)
    elif file.suffix == ".txt":
        file.write_text("\n".join(LABELS) + "\n")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"label": LABELS.tolist(), "other": LABELS[::-1].tolist()}), file)
    found = evaluated(tmp_path, tmp_path / "a.npy", "--labels", path, "--metrics", ",".join(FIVE))
    assert found["metrics"] == accuracies(ROWS, LABELS)


def test_whole_numbers_that_float32_cannot_tell_apart_are_different_labels(tmp_path: Path) -> None:
    labels = np.array([16777216, 16777217] * 4)
    np.savez(tmp_path / "a.npz", embeddings=ROWS[:8], labels=labels)
    assert [each["label"] for each in evaluated(tmp_path, tmp_path / "a.npz")["classes"]] == [16777216, 16777217]


def by_hand(distance: str, query: np.ndarray, reference: np.ndarray, own: Any, theirs: Any, self_query: bool) -> Any:
    values = np.asarray(resolve(distance)(query, reference), np.float64)
    same = np.asarray(own)[:, None] == np.asarray(theirs)
    other = ~same
    if self_query:
        same[np.arange(len(query)), np.arange(len(query))] = False
    return values[same], values[other]


@pytest.mark.rule("V-5")
def test_every_pair_is_in_the_histogram_of_small_data(tmp_path: Path, npz: Path) -> None:
    found = evaluated(tmp_path, npz, "--distance", "snr")["pairs"]
    for kind, values in zip(("same", "different"), by_hand("snr", ROWS, ROWS, LABELS, LABELS, True), strict=True):
        assert (found[kind]["pairs"], found[kind]["counted"], found[kind]["exact"]) == (len(values), len(values), True)
        assert found[kind]["counts"] == np.histogram(values, found["edges"])[0].tolist()
        assert found[kind]["median"] == np.median(values)
        assert sum(found[kind]["counts"]) == len(values)


@pytest.mark.rule("V-5")
@pytest.mark.parametrize("self_query", [True, False])
def test_pairs_are_numbered_so_that_each_can_be_drawn(monkeypatch: pytest.MonkeyPatch, self_query: bool) -> None:
    own = np.array([2, 0, 1, 0, 2, 2, 3])
    theirs = own if self_query else np.array([0, -1, 2, 2, 1, -1, 0, 0, 5])
    reference = ROWS[: len(theirs)] if self_query else ROWS[20 : 20 + len(theirs)]
    monkeypatch.setattr(pairs, "EVERY_PAIR", 0)
    rows = (ROWS[: len(own)], reference)
    told: list[tuple[int, int]] = []
    drawn = pairs.sampled_pairs(
        rows,
        (own, theirs),
        resolve("euclidean"),
        self_query=self_query,
        report=lambda done, total: told.append((done, total)),
    )
    for kind, values in zip(drawn, by_hand("euclidean", *rows, own, theirs, self_query), strict=True):
        assert kind.is_exact
        np.testing.assert_array_equal(np.sort(kind.values), np.sort(values))


@pytest.mark.rule("V-5")
def test_large_data_is_sampled_and_says_so(tmp_path: Path, npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EVERY_PAIR", 0)
    monkeypatch.setattr(pairs, "SAMPLE", 1000)
    found = evaluated(tmp_path, npz)["pairs"]
    assert (found["same"]["pairs"], found["same"]["counted"], found["same"]["exact"]) == (940, 940, True)
    assert (found["different"]["pairs"], found["different"]["counted"]) == (61 * 60 - 940, 1000)
    assert found["different"]["exact"] is False
    assert sum(found["different"]["counts"]) == 1000
    assert evaluated(tmp_path, npz)["pairs"] == found


def test_examples_are_what_a_search_finds(tmp_path: Path, npz: Path) -> None:
    found = evaluated(tmp_path, npz, "--distance", "cosine")["examples"]
    near = nearwise.knn(ROWS, ROWS, 5, distance="cosine", ref_includes_query=True)
    kept = LABELS != "lone"
    right = (LABELS[near.indices[:, 0]] == LABELS) & kept
    assert found["right"]["queries"] == right.sum()
    assert found["wrong"]["queries"] == (~right & kept).sum()
    for each in found["right"]["shown"] + found["wrong"]["shown"]:
        row = each["query"]
        assert each["label"] == LABELS[row]
        assert [near["index"] for near in each["neighbors"]] == near.indices[row].tolist()
        assert [near["value"] for near in each["neighbors"]] == near.distances[row].tolist()
        assert [near["label"] for near in each["neighbors"]] == LABELS[near.indices[row]].tolist()
        assert [near["same"] for near in each["neighbors"]] == (LABELS[near.indices[row]] == LABELS[row]).tolist()
    nearest_wrong = np.sort(near.distances[~right & kept, 0])[::-1][:10]
    assert [each["neighbors"][0]["value"] for each in found["wrong"]["shown"]] == nearest_wrong.tolist()
    taken = {(each["label"], each["nearest"]): each["queries"] for each in found["confusions"]}
    for (label, nearest), count in taken.items():
        assert count == (kept & (label == LABELS) & (LABELS[near.indices[:, 0]] == nearest)).sum()


def test_identical_rows_leave_themselves_out(tmp_path: Path) -> None:
    rows = np.zeros((12, 3), np.float32)
    np.savez(tmp_path / "a.npz", embeddings=rows, labels=np.arange(12) // 2)
    found = evaluated(tmp_path, tmp_path / "a.npz")
    near = nearwise.knn(rows, rows, 5, ref_includes_query=True)
    for each in found["examples"]["right"]["shown"] + found["examples"]["wrong"]["shown"]:
        assert [near["index"] for near in each["neighbors"]] == near.indices[each["query"]].tolist()


def test_clustering_metrics_are_computed_when_named(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rows = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0) + ROWS[:12, :3] / 1000
    np.savez(tmp_path / "a.npz", embeddings=rows, labels=np.repeat(np.arange(3), 4))
    found = evaluated(tmp_path, tmp_path / "a.npz", "--metrics", "NMI,precision_at_1")
    assert found["metrics"] == {"NMI": pytest.approx(1), "precision_at_1": 1.0}


def test_without_arguments_the_built_in_set_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate"]) == 0
    printed = capsys.readouterr().out
    expected = accuracies(*nearwise.load_example())
    for name in FIVE:
        (line,) = [line for line in printed.splitlines() if line.startswith(name + " ")]
        assert line.split()[1] == f"{expected[name]:.4f}"
    assert "9 rows left out" in printed


def test_json_goes_to_standard_output_alone(npz: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(npz), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["queries"]["all"] == 61


@pytest.mark.rule("V-2")
def test_json_has_neither_infinity_nor_nan() -> None:
    text = strict_json({"a": [math.inf, -math.inf, math.nan, 1.5], "b": {"c": (1, "x", None, True)}})
    assert json.loads(text, parse_constant=refuse) == {"a": [None, None, None, 1.5], "b": {"c": [1, "x", None, True]}}


@pytest.mark.rule("V-2")
def test_infinite_distances_are_counted_apart(tmp_path: Path) -> None:
    rows = np.array([[0, 1], [0, 2], [0, 3], [1, 1]], np.float32)  # the last is constant: its signal has no variance
    np.savez(tmp_path / "a.npz", embeddings=rows, labels=[0, 0, 1, 1])
    found = evaluated(tmp_path, tmp_path / "a.npz", "--distance", "snr")["pairs"]
    assert found["same"]["not_finite"] + found["different"]["not_finite"] == 3
    assert sum(found["same"]["counts"]) + sum(found["different"]["counts"]) == 9


@pytest.mark.rule("V-4")
def test_terminals_get_printable_labels_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "a.npz", embeddings=ROWS[:9], labels=["\x1b[31mred\n", "b" * 100, "日本" * 20] * 3)
    assert main(["evaluate", str(tmp_path / "a.npz")]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[31mred\\n" in printed
    assert "\x1b" not in printed
    widths = [sum(1 + (ord(each) > 0x2E80) for each in line) for line in printed.splitlines()[-3:]]
    assert len(set(widths)) == 1
    assert widths[0] < 80


WRONG = {
    "lengths": (["a.npy", "--labels", "short.npy"], 1, "expected one label for each of 61 rows, got 60"),
    "no labels": (["a.npy"], 1, "it holds no labels; name a file of them with --labels"),
    "no reference labels": (["a.npz", "--reference", "a.npy"], 1, "with --reference-labels"),
    "unknown metric": (["a.npz", "--metrics", "precision_at_1,map"], 2, "unknown map; known are precision_at_1, r_pre"),
    "no metric": (["a.npz", "--metrics", ","], 2, "no name given"),
    "lone labels": (["a.npy", "--labels", "lone.npy"], 1, "no label occurs twice, so there is nothing to find"),
    "k": (["a.npz", "-k", "61"], 1, "-k: expected at most 60, the neighbours that a row of a.npz has, got 61"),
    "k = 0": (["a.npz", "-k", "0"], 2, "0 is not in the range"),
    "empty": (["empty.npy", "--labels", "none.npy"], 1, "it holds no rows"),
    "one row": (["one.npy", "--labels", "lone1.npy"], 1, "expected at least two rows, got 1"),
    "NaN": (["nan.npy", "--labels", "labels.npy"], 1, "nan.npy: its rows must not contain NaN, found NaN in row 3"),
    "features": (["a.npz", "--reference", "narrow.npz"], 1, "a.npz has 6 features and narrow.npz 5"),
    "kinds": (["a.npz", "--reference", "numbers.npz"], 1, "must both be strings or both be numbers"),
    "others": (["a.npz", "--reference", "others.npz"], 1, "none of its labels is one of others.npz"),
    "not the same": (["a.npz", "--reference", "b.npz", "--ref-includes-query"], 1, "row 0 differs"),
    "several": (["several.npz"], 1, "expected labels named labels or label, or FILE:NAME; it holds x, y"),
    "objects": (["a.npy", "--labels", "objects.npy"], 1, "not an .npy file of labels"),
    "matrix": (["a.npy", "--labels", "a.npy"], 1, "expected one label per row, got shape (61, 6)"),
    "no file": (["missing.npz"], 1, "missing.npz"),
    "format": (["a.npy", "--labels", "labels.doc"], 1, "unknown format '.doc' of labels"),
    "html": (["a.npz", "--html", "report.pdf"], 1, "unknown format '.pdf', expected one of .html"),
    "json": (["a.npz", "--json", "missing/a.json"], 1, "no folder"),
    "no embeddings": (["--labels", "labels.npy"], 2, "--labels needs EMBEDDINGS"),
    "nothing to include": (["a.npz", "--ref-includes-query"], 2, "--ref-includes-query needs --reference"),
}


@pytest.mark.rule("V-6")
@pytest.mark.parametrize("case", WRONG)
def test_what_will_not_do_is_one_line_and_a_status(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with_nan = ROWS.copy()
    with_nan[3, 2] = np.nan
    arrays = {"a": ROWS, "short": LABELS[:-1], "lone": np.arange(61), "lone1": np.arange(1), "one": ROWS[:1],
              "empty": ROWS[:0], "none": LABELS[:0], "nan": with_nan, "labels": LABELS}  # fmt: skip
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.save("objects.npy", LABELS.astype(object), allow_pickle=True)
    np.savez("a.npz", embeddings=ROWS, labels=LABELS)
    np.savez("b.npz", embeddings=ROWS[::-1], labels=LABELS[::-1])
    np.savez("narrow.npz", embeddings=ROWS[:, :5], labels=LABELS)
    np.savez("numbers.npz", embeddings=ROWS, labels=np.arange(61))
    np.savez("others.npz", embeddings=ROWS, labels=np.full(61, "other"))
    np.savez("several.npz", embeddings=ROWS, x=LABELS, y=LABELS)
    Path("labels.doc").touch()
    arguments, status, message = WRONG[case]
    assert main(["evaluate", *arguments]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("nearwise")


def test_progress_is_shown_when_asked_for(npz: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(npz), "--progress"]) == 0
    assert "ranking: 100%" in capsys.readouterr().err
    assert main(["evaluate", str(npz), "--no-progress"]) == 0
    assert capsys.readouterr().err == ""


def test_lone_labels_are_one_line_of_a_process(tmp_path: Path) -> None:
    np.savez(tmp_path / "lone.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.arange(4))
    command = [sys.executable, "-m", "nearwise", "evaluate", "lone.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "nearwise: lone.npz: no label occurs twice, so there is nothing to find\n"
