"""Files that lie about themselves, names that name nothing, and closed streams: one line that says what is wrong."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nearwise
from nearwise.cli import main
from nearwise.cli.labels import labels_beside, read_labels
from nearwise.cli.reading import read_rows
from nearwise.cli.scored_pairs import read_scored_pairs

ROWS = np.random.default_rng(5).standard_normal((30, 6)).astype(np.float32)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 1) -> str:
    assert main([*map(str, arguments)]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("row", [0, 1, 1234, 4999])
@pytest.mark.parametrize(("suffix", "features"), [(".fvecs", 3), (".bvecs", 3), (".bvecs", 4)])
def test_a_wrong_length_in_any_row_is_found(tmp_path: Path, row: int, suffix: str, features: int) -> None:
    dtype = "<f4" if suffix == ".fvecs" else "u1"
    records = np.zeros(5000, [("length", "<i4"), ("values", dtype, (features,))])
    records["length"] = features
    records["length"][row] = -7
    path = tmp_path / f"a{suffix}"
    path.write_bytes(records.tobytes())
    with pytest.raises(
        ValueError, match=rf"a{suffix}: damaged" + (rf": row {row} says it has -7 values" if row else "")
    ):
        read_rows(str(path))
    records["length"][row] = features
    path.write_bytes(records.tobytes())
    assert read_rows(str(path)).rows.shape == (5000, features)


GOOD = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
HEADERS = {
    "negative": {"x": {**GOOD, "data_offsets": [-16, 0]}},
    "reversed": {"x": {**GOOD, "data_offsets": [16, 0]}},
    "beyond": {"x": {**GOOD, "data_offsets": [16, 32]}},
    "strings": {"x": {**GOOD, "data_offsets": ["0", "16"]}},
    "three": {"x": {**GOOD, "data_offsets": [0, 8, 16]}},
    "no offsets": {"x": {"dtype": "F32", "shape": [2, 2]}},
    "a number": {"x": 1},
    "negative shape": {"x": {**GOOD, "shape": [-2, -2]}},
    "fractional shape": {"x": {**GOOD, "shape": [2.0, 2.0]}},
    "no shape": {"x": {**GOOD, "shape": 4}},
    "no dtype": {"x": {**GOOD, "dtype": ["F32"]}},
    "other size": {"x": {**GOOD, "shape": [2, 3]}},
    "list": [],
    "nested": None,
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_safetensors_header_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    header = b"[" * 200_000 if kind == "nested" else json.dumps(HEADERS[kind]).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    said = complaint(capsys, "search", path, "-k", 1)
    assert "a.safetensors: " in said
    assert "damaged" in said or "not a safetensors file" in said
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        labels_beside(str(path))


def contents() -> dict[str, bytes]:
    """Return a good file of each format."""
    made = {}
    with io.BytesIO() as stream:
        np.save(stream, ROWS)
        made[".npy"] = stream.getvalue()
    with io.BytesIO() as stream:
        np.savez_compressed(stream, embeddings=ROWS, labels=np.arange(len(ROWS)))
        made[".npz"] = stream.getvalue()
    header = json.dumps({"x": {"dtype": "F32", "shape": [30, 6], "data_offsets": [0, ROWS.nbytes]}}).encode()
    made[".safetensors"] = len(header).to_bytes(8, "little") + header + ROWS.tobytes()
    return made


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_file_cut_or_changed_anywhere_is_read_or_refused_by_name(tmp_path: Path, suffix: str) -> None:
    content = contents()[suffix]
    path = tmp_path / f"a{suffix}"
    rng = np.random.default_rng(1)
    errors: list[Exception] = []
    for trial in range(200):
        changed = bytearray(content)
        if trial % 3 == 0:
            del changed[int(rng.integers(1, len(content))) :]
        else:
            near = int(rng.integers(min(140, len(content)))) if trial % 3 == 1 else int(rng.integers(len(content)))
            changed[near] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        for read in (read_rows, labels_beside, read_labels):
            try:
                read(str(path))
            except (ValueError, MemoryError) as error:
                errors.append(error)
    assert len(errors) > 60
    assert not [error for error in errors if path.name not in str(error) and not isinstance(error, MemoryError)]


def objects() -> bytes:
    with io.BytesIO() as stream:
        np.savez(stream, x=np.array([[None, 1]]))
        return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.npz", contents()[".npz"][:-40], "not an .npz file"),
        ("renamed.npz", contents()[".npy"], "a single array"),
        ("objects.npz", objects(), "Python objects"),
        ("cut.npy", contents()[".npy"][:-3], "damaged"),
        ("open.npy", contents()[".npy"].replace(b"(30, 6)", b"(30, 6("), "not an .npy file"),
        ("minus.npy", contents()[".npy"].replace(b"(30, 6)", b"(-3,-6)"), "damaged"),
    ],
)
def test_damage_is_one_line_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    told = complaint(capsys, "search", tmp_path / name, "-k", 1)
    assert f"{name}: " in told.replace(":x", "")
    assert said in told


def test_a_flipped_byte_of_an_npz_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "a.npz", x=ROWS)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[400] ^= 4
    (tmp_path / "a.npz").write_bytes(content)
    assert "a.npz:x: not an array, or a damaged one: Bad CRC-32" in complaint(capsys, "search", tmp_path / "a.npz")


def test_damaged_scores_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(contents()[".npy"].replace(b"(30, 6)", b"(30, 6("))
    with pytest.raises(ValueError, match=r"a\.npy: not an \.npy file"):
        read_scored_pairs(str(tmp_path / "a.npy"), str(tmp_path / "a.npy"))


@pytest.mark.parametrize("content", [contents()[".npz"][:-40], contents()[".npy"][:-3], objects(), b"", b"text"])
def test_damage_on_standard_input_is_one_line(content: bytes) -> None:
    command = [sys.executable, "-m", "nearwise", "search", "-", "-k", "1"]
    done = subprocess.run(command, input=content, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"nearwise: standard input")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [("<&-", 1, "standard input: it is closed"), (">&-", 1, "standard output is closed"), ("2>&-", 1, "")],
)
def test_a_closed_stream_is_one_line(tmp_path: Path, closed: str, status: int, said: str) -> None:
    source = "-" if closed != ">&-" else ""
    command = f'"{sys.executable}" -m nearwise search {source} -k 1 {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, input="", timeout=60, check=False)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stderr.count("\n") <= 1


def test_an_array_on_standard_input_is_chosen_by_name(tmp_path: Path) -> None:
    with io.BytesIO() as stream:
        np.savez(stream, a=ROWS[:4], b=ROWS)
        content = stream.getvalue()
    command = [sys.executable, "-m", "nearwise", "search", "-k", "1", "--", "-:b"]
    done = subprocess.run(command, input=content, capture_output=True, timeout=60, check=True)
    assert done.stdout.count(b"\n") == 30


@pytest.mark.parametrize("suffix", [".npy", ".fvecs"])
def test_a_name_in_a_file_of_one_matrix_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    (tmp_path / f"a{suffix}").write_bytes(contents()[".npy"])
    assert "no 'zz'" in complaint(capsys, "search", tmp_path / f"a{suffix}:zz")


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_what_is_no_file_is_called_so(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert f"{name!r} is no file but" in complaint(capsys, "search", name)


@pytest.mark.parametrize("suffix", [".npz", ".ivecs", ".fvecs"])
def test_a_folder_in_the_place_of_the_output_is_found_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    (tmp_path / f"a{'.fvecs' if suffix == '.ivecs' else suffix}").mkdir()
    assert "a folder stands there" in complaint(capsys, "search", "/no/such.npy", "-o", tmp_path / f"a{suffix}")


def test_a_failed_write_names_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    said = complaint(capsys, "search", "-k", 1, "-o", tmp_path / "out.npz")
    assert said.endswith(f"Permission denied: '{tmp_path / 'out.npz'}'\n")
    assert ".tmp" not in said


def test_errors_of_the_search_name_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, query = tmp_path / "r.npy", tmp_path / "q.npy"
    np.save(reference, np.where(ROWS > 2, np.nan, ROWS))
    np.save(query, ROWS[:, :5])
    said = complaint(capsys, "search", reference)
    assert f"{reference} must not contain NaN (see --nan)" in said
    assert "query" not in said
    assert f"{query} and {reference} must have the same number of features" in complaint(
        capsys, "search", reference, query
    )
    np.save(reference, ROWS)
    said = complaint(capsys, "search", reference, "-k", 30)
    assert f"the number of rows of {reference} other than the row itself, got 30" in said
    np.save(query, np.where(ROWS > 2, np.nan, ROWS))
    assert f"{query} must not contain NaN" in complaint(capsys, "search", reference, query)


def test_a_k_that_is_no_number_is_no_integer(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'x' is not a valid integer." in complaint(capsys, "search", "-k", "x", status=2)


def test_the_version_is_that_of_the_imported_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nearwise {nearwise.__version__}\n"
