"""`nearwise search`: every format in, every format out, and what is said when it cannot be done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nearwise
from nearwise.cli import main
from nearwise.cli.reading import read_rows

ROWS = np.random.default_rng(3).standard_normal((40, 12)).astype(np.float32)
QUERY = ROWS[:7] + np.float32(0.25)


def write_vecs(path: Path, rows: np.ndarray) -> None:
    records = [np.int32(rows.shape[1]).tobytes() + row.tobytes() for row in rows]
    path.write_bytes(b"".join(records))


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "query.npy"
    np.save(path, QUERY)
    return path


def make(path: Path, rows: np.ndarray) -> Path:
    """Write rows in the format of the path's extension, with the format's own library where there is one."""
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, embeddings=rows, labels=np.arange(len(rows)))
    elif path.suffix == ".fvecs":
        write_vecs(path, rows)
    elif path.suffix == ".fbin":
        path.write_bytes(np.array(rows.shape, np.int32).tobytes() + rows.tobytes())
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"embeddings": rows}, path)
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        column = pyarrow.array(list(rows), pyarrow.list_(pyarrow.float32()))
        pyarrow.parquet.write_table(pyarrow.table({"embeddings": column, "label": ["a"] * len(rows)}), path)
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".fvecs", ".fbin", ".safetensors", ".parquet"])
def test_every_format_holds_the_rows_that_were_written(tmp_path: Path, query: Path, suffix: str) -> None:
    path = make(tmp_path / f"reference{suffix}", ROWS)
    rows = read_rows(str(path)).rows
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, ROWS)
    output = tmp_path / "out.npz"
    assert main(["search", str(path), str(query), "-k", "3", "--distance", "cosine", "-o", str(output)]) == 0
    expected = nearwise.knn(QUERY, ROWS, 3, distance="cosine")
    with np.load(output) as found:
        np.testing.assert_array_equal(found["indices"], expected.indices)
        np.testing.assert_array_equal(found["distances"], expected.distances)


@pytest.mark.parametrize("suffix", [".npy", ".fvecs", ".fbin", ".safetensors"])
def test_formats_that_store_plain_rows_are_mapped_and_not_read(tmp_path: Path, suffix: str) -> None:
    source = read_rows(str(make(tmp_path / f"reference{suffix}", ROWS)))
    assert source.file is not None
    assert not source.rows.flags.owndata
    assert not source.rows.flags.writeable
    source.file.release()
    np.testing.assert_array_equal(source.rows, ROWS)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_keep_dtype_and_order(tmp_path: Path, dtype: str, order: str) -> None:
    rows = np.asarray(ROWS.astype(dtype), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", rows)
    read = read_rows(str(tmp_path / "a.npy")).rows
    assert read.dtype == dtype
    assert read.flags.f_contiguous == (order == "F")
    np.testing.assert_array_equal(read, rows)


def test_bytes_are_read_as_the_float16_of_the_same_value(tmp_path: Path) -> None:
    rows = np.arange(256, dtype=np.uint8).reshape(16, 16)
    write_vecs(tmp_path / "a.bvecs", rows)
    read = read_rows(str(tmp_path / "a.bvecs")).rows
    assert read.dtype == np.float16
    np.testing.assert_array_equal(read, rows)


def test_bfloat16_tensors_are_searched_as_stored(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    rows = torch.from_numpy(ROWS).bfloat16()
    save_file({"bias": torch.zeros(3), "weight": rows}, tmp_path / "model.safetensors")
    source = read_rows(str(tmp_path / "model.safetensors"))
    assert source.rows.dtype.name == "bfloat16"
    assert main(["search", str(tmp_path / "model.safetensors"), "-k", "4", "-o", str(tmp_path / "out.npz")]) == 0
    expected = nearwise.knn(rows, rows, 4, ref_includes_query=True)
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["indices"], expected.indices.numpy())
        np.testing.assert_array_equal(found["distances"], expected.distances.numpy())


def test_float_columns_of_a_table_are_the_features(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {f"x{column}": ROWS[:, column] for column in range(3)}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    np.testing.assert_array_equal(read_rows(str(tmp_path / "a.parquet")).rows, ROWS[:, :3])


def test_a_name_after_a_colon_chooses_one_array_of_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", first=ROWS, second=QUERY)
    np.testing.assert_array_equal(read_rows(f"{tmp_path}/two.npz:second").rows, QUERY)
    with pytest.raises(ValueError, match=r"it holds first float32\[40, 12\], second float32\[7, 12\]"):
        read_rows(f"{tmp_path}/two.npz")
    with pytest.raises(ValueError, match="no 'third'"):
        read_rows(f"{tmp_path}/two.npz:third")


def test_without_an_output_file_neighbours_are_lines(
    tmp_path: Path, query: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", str(make(tmp_path / "a.npy", ROWS)), str(query), "-k", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = nearwise.knn(QUERY, ROWS, 2)
    assert [(int(row), int(rank)) for row, rank, _, _ in lines] == [(row, rank) for row in range(7) for rank in (1, 2)]
    assert [int(index) for _, _, index, _ in lines] == expected.indices.ravel().tolist()
    # The shortest decimals that name the float32.
    assert [np.float32(value) for _, _, _, value in lines] == expected.distances.ravel().tolist()


def test_without_a_query_no_row_is_its_own_neighbour(tmp_path: Path) -> None:
    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", "-k", "5", "-o", f"{tmp_path}/out.npz"]) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert not (found["indices"] == np.arange(len(ROWS))[:, None]).any()


def test_without_files_the_built_in_embeddings_are_searched(tmp_path: Path) -> None:
    assert main(["search", "-k", "1", "--distance", "cosine", "-o", f"{tmp_path}/out.npz"]) == 0
    labels = nearwise.load_example().labels
    with np.load(tmp_path / "out.npz") as found:
        same = labels[found["indices"][:, 0]] == labels
    assert 0.5 < same.mean() < 0.6


@pytest.mark.parametrize("output", ["out.ivecs", "out.fvecs"])
def test_vecs_are_written_as_a_pair(tmp_path: Path, query: Path, output: str) -> None:
    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", str(query), "-k", "3", "-o", str(tmp_path / output)]) == 0
    expected = nearwise.knn(QUERY, ROWS, 3)
    indices = np.fromfile(tmp_path / "out.ivecs", np.int32).reshape(7, 4)
    assert (indices[:, 0] == 3).all()
    np.testing.assert_array_equal(indices[:, 1:], expected.indices)
    np.testing.assert_array_equal(read_rows(str(tmp_path / "out.fvecs")).rows, expected.distances)


def test_parquet_is_written_as_two_columns_of_lists(tmp_path: Path, query: Path) -> None:
    import pyarrow.parquet

    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", str(query), "-k", "3", "-o", f"{tmp_path}/out.parquet"]) == 0
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    expected = nearwise.knn(QUERY, ROWS, 3)
    assert table["indices"].to_pylist() == expected.indices.tolist()
    assert table["distances"].to_pylist() == expected.distances.tolist()


def test_a_narrower_query_is_widened_and_a_wider_one_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half, single = make(tmp_path / "half.npy", QUERY.astype(np.float16)), make(tmp_path / "single.npy", ROWS)
    assert main(["search", str(single), str(half), "-k", "1", "-o", f"{tmp_path}/out.npz"]) == 0
    expected = nearwise.knn(QUERY.astype(np.float16).astype(np.float32), ROWS, 1)
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["distances"], expected.distances)
    assert main(["search", str(half), str(single), "-k", "1"]) == 1
    assert "float32 and float16" in capsys.readouterr().err


def damaged(tmp_path: Path) -> dict[str, Path]:
    """Files that cannot be read, by what is wrong with them."""
    files = {
        "empty": tmp_path / "empty.npy",
        "integers": make(tmp_path / "integers.npy", ROWS.astype(np.int64)),
        "one dimension": make(tmp_path / "flat.npy", ROWS[0]),
        "objects": tmp_path / "objects.npy",
        "short .npy": make(tmp_path / "short.npy", ROWS),
        "no .npy": tmp_path / "text.npy",
        "no .npz": tmp_path / "text.npz",
        "short .fvecs": make(tmp_path / "short.fvecs", ROWS),
        "uneven .fvecs": tmp_path / "uneven.fvecs",
        "short .fbin": make(tmp_path / "short.fbin", ROWS),
        "short .safetensors": make(tmp_path / "short.safetensors", ROWS),
        "no .safetensors": tmp_path / "text.safetensors",
        "no .parquet": tmp_path / "text.parquet",
        "unknown format": tmp_path / "a.xyz",
        "missing": tmp_path / "missing.npy",
        "not a number": make(tmp_path / "nan.npy", np.where(ROWS > 2, np.nan, ROWS)),
    }
    files["empty"].touch()
    np.save(files["objects"], np.array([[None, 1]]), allow_pickle=True)
    for name, path in files.items():
        if name.startswith("short"):
            path.write_bytes(path.read_bytes()[:-5])
        elif name.startswith("no ") or name == "unknown format":
            path.write_text("neither this nor that")
    files["uneven .fvecs"].write_bytes(b"".join(np.int32(n).tobytes() + bytes(8) for n in (2, 2, 3, 2)))
    return files


KINDS = [
    "empty", "integers", "one dimension", "objects", "short .npy", "no .npy", "no .npz", "short .fvecs",
    "uneven .fvecs", "short .fbin", "short .safetensors", "no .safetensors", "no .parquet", "unknown format", "missing",
    "not a number",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_will_not_do_is_one_line_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = damaged(tmp_path)[kind]
    assert main(["search", str(path), "-k", "1", "--no-progress", "-o", f"{tmp_path}/out.npz"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nearwise: ")
    assert said.err.count("\n") == 1
    assert kind == "not a number" or path.name in said.err
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("output", ["out.csv", "nowhere/out.npz"])
def test_a_wrong_output_is_refused_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    assert main(["search", "/no/such/file.npy", "-o", str(tmp_path / output)]) == 1
    assert Path(output).name in capsys.readouterr().err


def test_k_is_checked_by_the_command_line_and_by_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", "-k", "0"]) == 2
    assert main(["search", f"{tmp_path}/a.npy", "-k", "40"]) == 1
    assert "between 1 and 39" in capsys.readouterr().err


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    make(tmp_path / "a.npy", ROWS)
    (tmp_path / "out.npz").write_text("before")
    monkeypatch.setattr(np, "savez", full)
    assert main(["search", f"{tmp_path}/a.npy", "-k", "1", "-o", f"{tmp_path}/out.npz"]) == 1
    assert (tmp_path / "out.npz").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "out.npz"]


def test_a_query_comes_from_standard_input(tmp_path: Path, query: Path) -> None:
    make(tmp_path / "a.npy", ROWS)
    command = [sys.executable, "-m", "nearwise", "search", f"{tmp_path}/a.npy", "-", "-k", "1"]
    done = subprocess.run(command, input=query.read_bytes(), capture_output=True, timeout=60, check=True)
    expected = nearwise.knn(QUERY, ROWS, 1).indices.ravel().tolist()
    assert [int(line.split()[2]) for line in done.stdout.splitlines()] == expected


def test_a_bar_is_drawn_when_asked_for_and_not_into_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", "-k", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["search", f"{tmp_path}/a.npy", "-k", "1", "--progress"]) == 0
    assert "searching: 100%" in capsys.readouterr().err


def test_verbose_says_what_was_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a.npy", ROWS)
    assert main(["search", f"{tmp_path}/a.npy", "-k", "1", "-v", "-o", f"{tmp_path}/out.npz"]) == 0
    said = capsys.readouterr().err
    assert "40 x 40 rows, 12 features, float32" in said
    assert f"wrote {tmp_path}/out.npz" in said


def test_verbose_says_how_the_search_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a.npy", ROWS)
    command = ["search", f"{tmp_path}/a.npy", "-k", "1", "-v", "-o", f"{tmp_path}/out.npz"]
    for method in ("f32", "i8"):
        assert main([*command, "--method", method]) == 0
        said = capsys.readouterr().err
        assert f"method {method}, instruction set " in said
        assert "exact values per query" in said
    monkeypatch.setenv("NEARWISE_METHOD", "direct")
    assert main(command) == 0
    assert "method direct, instruction set " in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_with_status_130_and_no_file(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((30_000, 512)).astype(np.float32)
    np.save(tmp_path / "a.npy", rows)
    # A shell's background job starts with the signal ignored, and so would its children.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); import nearwise.cli; "
    program += "sys.exit(nearwise.cli.main())"
    command = [sys.executable, "-c", program, "search", f"{tmp_path}/a.npy", "-k", "10", "--distance", "manhattan",
               "--progress", "-o", f"{tmp_path}/out.npz"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, bufsize=0)
    assert process.stderr is not None
    said = b""
    while b"searching" not in said:  # the bar: the work has begun
        said += process.stderr.read(64)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "nearwise: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_safetensors_headers_are_read_as_the_format_says(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    values = np.arange(4, dtype=np.float32)
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + values.tobytes())
    np.testing.assert_array_equal(read_rows(str(tmp_path / "a.safetensors")).rows, values.reshape(2, 2))
