"""`nearwise threshold` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearwise.cli import main
from nearwise.evaluation import match_f1, match_f_beta, select_threshold

SCORES = np.array([8, 4, 2, 1], dtype=np.float32)
LABELS = np.array([True, False, True, False])


def nearwise(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nearwise", "threshold", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    np.save(tmp_path / "scores.npy", SCORES)
    np.save(tmp_path / "labels.npy", LABELS)
    return tmp_path / "scores.npy", tmp_path / "labels.npy"


def test_the_selection_and_the_confusion_counts_are_printed(files: tuple[Path, Path]) -> None:
    done = nearwise(*files, "--metric", "f1", "--similarity")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line]
    assert lines[:4] == [
        ["metric", "f1"],
        ["value", "0.8"],
        ["threshold", "1.5", "(float32)"],
        ["matches", "score", ">=", "threshold"],
    ]
    assert lines[5:7] == [["matches", "2", "1"], ["does", "not", "0", "1"]]


def test_json_is_the_library_s_answer(files: tuple[Path, Path]) -> None:
    report = json.loads(nearwise(*files, "--json").stdout)
    threshold, value = select_threshold(SCORES, LABELS, match_f1, is_inverted=False)
    assert (report["threshold"], report["value"], report["rule"]) == (threshold, value, "score <= threshold")
    assert report["true_positives"] + report["false_negatives"] == 2
    report = json.loads(nearwise(*files, "--json", "--beta", "0.5", "--similarity").stdout)
    threshold, value = select_threshold(SCORES, LABELS, match_f_beta(0.5), is_inverted=True)
    assert (report["threshold"], report["value"]) == (threshold, value)
    report = json.loads(nearwise(*files, "--json", "--max-false-match-rate", "0", "--similarity").stdout)
    assert (report["threshold"], report["value"]) == (6, 0.5)


def test_a_table_of_two_columns_will_do(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table, other = tmp_path / "pairs.csv", tmp_path / "pairs.parquet"
    rows = zip(LABELS.tolist(), SCORES.tolist(), strict=True)
    table.write_text("pair,label,score\n" + "".join(f"x,{label},{score}\n" for label, score in rows))
    pyarrow.parquet.write_table(pyarrow.table({"a": SCORES, "b": LABELS.astype(np.int8)}), other)
    for path in (table, other):
        report = json.loads(nearwise(path, "--json", "--similarity").stdout)
        assert (report["threshold"], report["value"]) == (1.5, 0.8)


@pytest.mark.rule("V-2")
@pytest.mark.parametrize("direction", ["--similarity", "--distance"])
def test_json_has_null_for_a_threshold_that_nothing_reaches(tmp_path: Path, direction: str) -> None:
    np.save(tmp_path / "s.npy", np.array([1.0, 1.0]))
    np.save(tmp_path / "l.npy", np.array([1, 0]))
    done = nearwise(tmp_path / "s.npy", tmp_path / "l.npy", "--metric", "accuracy", "--json", direction)
    assert not {"Infinity", "NaN"} & set(done.stdout.replace("-", " ").replace(",", " ").split())
    report = json.loads(done.stdout)
    assert report["threshold"] is None
    assert (report["true_positives"], report["false_positives"]) == (0, 0)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_plot_is_drawn(files: tuple[Path, Path], tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"out.{suffix}"
    done = nearwise(*files, "--similarity", "--metric", "mcc", "--plot", target)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


def test_a_selection_that_accepts_nothing_can_be_drawn(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array([1.0, 1.0]))
    np.save(tmp_path / "l.npy", np.array([1, 0]))
    arguments = (tmp_path / "s.npy", tmp_path / "l.npy", "--metric", "accuracy", "--plot", tmp_path / "o.png")
    done = nearwise(*arguments)
    assert done.returncode == 0, done.stderr
    assert "which is none" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scores.npy", "--metric", "f1"], "without a file of labels, expected a .csv or .parquet"),
        (["scores.npy", "words.npy"], "labels must be bool, or 0 and 1"),
        (["scores.npy", "other.npy"], "labels must be as many as the scores, got 2 labels for 4 scores"),
        (["scores.npy", "labels.npy", "--plot", "o.gif"], "unknown format '.gif'"),
        (["scores.npy", "labels.npy", "--min-precision", "2"], "precision must be between 0 and 1"),
        (["bad.csv"], "line 3: expected a number and a label"),
        (["none.npy", "labels.npy"], "none.npy"),
    ],
)
def test_mistakes_are_one_line(files: tuple[Path, Path], arguments: list[str], message: str) -> None:
    folder = files[0].parent
    np.save(folder / "words.npy", np.array(["a", "b", "a", "b"]))
    np.save(folder / "other.npy", np.array([True, False]))
    (folder / "bad.csv").write_text("score,label\n1,0\n2,same\n")
    done = nearwise(*(folder / argument if "." in argument else argument for argument in arguments))
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_two_wishes_cannot_be_combined(files: tuple[Path, Path]) -> None:
    done = nearwise(*files, "--metric", "f1", "--beta", "2")
    assert done.returncode == 2
    assert "--metric and --beta cannot be combined" in done.stderr


PAIRS = "0.9,1\n0.8,1\n0.2,0\n"


@pytest.mark.parametrize(
    "content",
    [
        "score,label\n" + PAIRS,
        "\ufeffscore,label\n" + PAIRS,
        "similarity,same\n" + PAIRS,
        "label,similarity\n1,0.9\n1,0.8\n0,0.2\n",
        "same,score\n1,0.9\n1,0.8\n0,0.2\n",
    ],
)
def test_columns_are_told_apart_by_the_names_they_have(content, tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    path.write_text(content, encoding="utf-8")
    assert main(["threshold", str(path), "--metric", "f1", "--similarity", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threshold"] == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PAIRS.encode(), "line 1: expected the names of the columns, such as score,label, got 0.9,1"),
        (b"score,label\n\xff,1\n", "not a CSV file in UTF-8"),
        (b"score,label\n" + b"1" * 200_000 + b",1\n", "not a CSV file in UTF-8: field larger than field limit"),
    ],
)
def test_a_csv_file_that_is_none_is_refused_by_name(content, message, tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    path.write_bytes(content)
    assert main(["threshold", str(path), "--metric", "f1"]) == 1
    said = capsys.readouterr().err
    assert f"{path}: {message}" in said
    assert said.count("\n") == 1
