import csv
import datetime
import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
import torch

from nearwise._files import replacing
from nearwise.logging_presets import RecordKeeper, RecordWriter, get_record_keeper
from nearwise.logging_presets.record_keeper import shortened


def table(path):
    with path.open() as file:
        return list(csv.reader(file))


@pytest.mark.rule("H-0")
def test_a_record_keeper_comes_with_its_writers(tmp_path):
    keeper, writer, tensorboard = get_record_keeper(tmp_path / "csv", tmp_path / "tb")
    assert keeper.record_writer is writer
    assert keeper.tensorboard_writer is tensorboard
    assert get_record_keeper(tmp_path / "csv")[2] is None
    tensorboard.close()


@pytest.mark.rule("H-0")
@pytest.mark.parametrize("missing", ["torch", "torch.utils.tensorboard"])
def test_without_its_packages_there_is_a_warning_and_no_record_keeper(tmp_path, monkeypatch, caplog, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert get_record_keeper(tmp_path / "csv", tmp_path / "tb") == (None, None, None)
    assert "nearwise[logging]" in caplog.text
    assert not (tmp_path / "csv").exists()


@pytest.mark.rule("H-0")
def test_without_a_folder_for_it_tensorboard_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert get_record_keeper(tmp_path)[0] is not None


@pytest.mark.rule("H-9")
def test_values_of_any_kind_are_written_and_read_back(tmp_path):
    writer = RecordWriter(tmp_path, save_lists=True)
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    values = {
        "a": 1,
        "b": 0.1,
        "c": "text",
        "d": np.float32(0.5),
        "e": torch.tensor(3),
        "f": [1.5],
        "g": np.arange(3),
        "h": when,
    }
    for name, value in values.items():
        writer.append("group", name, value, 1)
    writer.save_records()
    found = writer.query("SELECT * FROM [group]", return_dict=True)
    assert found.pop("id") == [1]
    expected = {"~iteration~": [1], "a": [1], "b": [0.1], "c": ["text"], "d": [0.5], "e": [3], "f": [1.5]}
    assert found == {**expected, "g_list": [[0, 1, 2]], "h": ["2024-05-06 07:08:09"]}
    assert table(tmp_path / "group.csv")[0] == ["~iteration~", *values]
    assert writer.query("SELECT * FROM [group] WHERE a = 2", return_dict=True) == {}
    assert writer.query("SELECT a FROM [group]")[0]["a"] == 1


@pytest.mark.rule("H-9")
def test_lists_are_dropped_unless_they_are_wanted(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.append("group", "list", [1, 2], 1)
    writer.append("group", "number", 1, 1)
    writer.append("lists only", "list", [1, 2], 1)
    writer.save_records()
    assert table(tmp_path / "group.csv") == [["~iteration~", "number"], ["1", "1"]]
    assert not writer.table_exists("lists only")


@pytest.mark.rule("H-9")
def test_rows_are_appended_and_a_new_header_comes_only_with_other_columns(tmp_path):
    for columns, iteration in ((("a",), 1), (("a",), 2), (("a", "b"), 3), (("a", "b"), 4)):
        writer = RecordWriter(tmp_path)
        for name in columns:
            writer.append("group", name, iteration * 10, iteration)
        writer.save_records()
    assert table(tmp_path / "group.csv") == [
        ["~iteration~", "a"],
        ["1", "10"],
        ["2", "20"],
        ["~iteration~", "a", "b"],
        ["3", "30", "30"],
        ["4", "40", "40"],
    ]
    found = writer.query("SELECT * FROM [group]", return_dict=True)
    assert found["id"] == [1, 2, 3, 4]
    assert found["b"] == [None, None, 30, 40]


@pytest.mark.rule("H-9")
def test_series_that_skip_iterations_share_rows(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.append("group", "a", 1, 5)
    writer.append("group", "b", 2, 3)
    writer.append("group", "a", 7, 5)
    writer.save_records()
    assert table(tmp_path / "group.csv") == [["~iteration~", "a", "b"], ["3", "", "2"], ["5", "7", ""]]
    writer.save_records()
    assert len(table(tmp_path / "group.csv")) == 3


@pytest.mark.rule("H-9", "H-14")
def test_nan_is_null_in_the_database(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.append("group", "a", float("nan"), 1)
    writer.save_records()
    with sqlite3.connect(tmp_path / "logs.db") as connection:
        assert connection.execute("SELECT a FROM [group]").fetchall() == [(None,)]
    assert table(tmp_path / "group.csv")[1] == ["1", "nan"]


@pytest.mark.rule("H-9")
def test_a_csv_file_behind_the_database_is_completed(tmp_path):
    writer = RecordWriter(tmp_path)
    for iteration in (1, 2, 3):
        writer.append("group", "a", iteration / 2, iteration)
        writer.save_records()
    whole = (tmp_path / "group.csv").read_bytes()
    for cut in (0, 5, len(whole) - 2, len(whole) - 7):
        (tmp_path / "group.csv").write_bytes(whole[:cut])
        RecordWriter(tmp_path)
        assert table(tmp_path / "group.csv") == table_of(whole)
    (tmp_path / "group.csv").unlink()
    RecordWriter(tmp_path)
    assert table(tmp_path / "group.csv") == table_of(whole)


def table_of(content):
    return list(csv.reader(content.decode().splitlines()))


@pytest.mark.rule("H-9")
def test_all_groups_of_a_saving_are_in_the_database_or_none(tmp_path):
    writer = RecordWriter(tmp_path)
    with sqlite3.connect(tmp_path / "logs.db") as connection:
        connection.execute("CREATE VIEW second AS SELECT 1 AS a")
    writer.append("first", "a", 1, 1)
    writer.append("second", "a", 1, 1)
    with pytest.raises(sqlite3.Error):
        writer.save_records()
    assert not writer.table_exists("first")


def test_a_missing_column_is_an_error_and_not_a_string(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.append("group", "a", 1, 1)
    writer.save_records()
    with pytest.raises(sqlite3.OperationalError):
        writer.query("SELECT b FROM [group]")


@pytest.mark.rule("H-0")
def test_several_experiments_share_a_global_database(tmp_path):
    path = tmp_path / "global.db"
    for name, value in (("one", 1), ("two", 2)):
        writer = RecordWriter(tmp_path / name, path, name)
        writer.append("group", "a", value, 1)
        writer.save_records()
    writer = RecordWriter(tmp_path / "one", path, "one", is_new_experiment=False)
    writer.append("group", "a", 3, 2)
    writer.save_records()
    found = writer.query(
        "SELECT experiment_name, a FROM [group] JOIN experiment_ids ON experiment_id = experiment_ids.id",
        use_global_db=True,
        return_dict=True,
    )
    assert found == {"experiment_name": ["one", "two", "one"], "a": [1, 2, 3]}
    assert writer.query("SELECT a FROM [group]", return_dict=True) == {"a": [1, 3]}
    with pytest.raises(ValueError, match="has records already"):
        RecordWriter(tmp_path / "one", path, "one")
    with pytest.raises(ValueError, match="needs experiment_name"):
        RecordWriter(tmp_path / "one", path)
    with pytest.raises(ValueError, match="global_db_path"):
        RecordWriter(tmp_path / "three").query("SELECT 1", use_global_db=True)


@pytest.mark.rule("H-8")
def test_long_names_are_hashed_and_the_map_is_kept(tmp_path):
    keeper, _, _ = get_record_keeper(tmp_path)
    name = "accuracies_" + "_".join(["x"] * 60) + "_self"
    keeper.append_primitive(name, "a", 1, 1)
    keeper.save_records()
    assert json.loads((tmp_path / "hash_map.json").read_text()) == {shortened(name): name}
    assert get_record_keeper(tmp_path)[0].hash_map == {shortened(name): name}
    assert (tmp_path / f"{shortened(name)}.csv").exists()
    with pytest.raises(ValueError, match="empty"):
        keeper.append_primitive("", "a", 1, 1)


def test_objects_that_refer_to_each_other_are_recorded_once(tmp_path):
    class Thing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self._record_these, self.size = ["size"], 1
            self.others = {}

    one, two = Thing(), Thing()
    one.others["two"], two.others["one"] = two, one
    keeper, writer, _ = get_record_keeper(tmp_path)
    keeper.update_records({"one": one}, 1, recursive_types=[torch.nn.Module, dict])
    keeper.save_records()
    assert writer.local_db.tables() == ["one_Thing", "one_Thing_others_two_Thing"]
    assert keeper.get_record("one_Thing") == {}


def test_a_keeper_without_a_writer_says_so_when_asked_to_read():
    keeper = RecordKeeper()
    keeper.append_primitive("group", "a", 1, 1)
    keeper.save_records()
    with pytest.raises(ValueError, match="record_writer"):
        keeper.query("SELECT 1")


@pytest.mark.rule("H-9")
def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_records_need_no_torch():
    code = "import sys; import nearwise.logging_presets; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


record_keeper = pytest.importorskip("record_keeper")


@pytest.mark.rule("H-9", "H-8")
def test_record_keeper_goes_on_with_our_files_and_we_with_its(tmp_path):
    long = "accuracies_" + "_".join(["x"] * 60) + "_self"

    def theirs():
        writer = record_keeper.RecordWriter(str(tmp_path))
        return record_keeper.RecordKeeper(record_writer=writer)

    for iteration, make in enumerate([lambda: get_record_keeper(tmp_path)[0], theirs] * 2):
        keeper = make()
        for group in ("losses", long):
            keeper.update_records({"a": iteration, "b": 0.5}, iteration, parent_name=group)
        keeper.save_records()
    for keeper in (theirs(), get_record_keeper(tmp_path)[0]):
        for group in ("losses", shortened(long)):
            assert keeper.query(f"SELECT a, b FROM {group}", return_dict=True) == {"a": [0, 1, 2, 3], "b": [0.5] * 4}
            assert keeper.table_exists(group)
    assert table(tmp_path / "losses.csv") == [["~iteration~", "a", "b"], *([str(i), str(i), "0.5"] for i in range(4))]


@pytest.mark.rule("H-1")
def test_the_same_groups_are_found_in_objects_as_by_record_keeper(tmp_path):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    miners = pytest.importorskip("pytorch_metric_learning.miners")
    things = {
        "metric_loss": losses.ContrastiveLoss(collect_stats=True),
        "tuple_miner": miners.MultiSimilarityMiner(collect_stats=True),
        "skipped": None,
        "nested": {"value": 3},
    }

    def groups(keeper):
        keeper.update_records(things, 0, recursive_types=[torch.nn.Module, dict])
        return {group: dict(series) for group, series in keeper.record_writer.records.items()}

    ours = groups(get_record_keeper(tmp_path / "ours")[0])
    names = ["_record_these", "_record_these_stats"]
    theirs = groups(
        record_keeper.RecordKeeper(
            record_writer=record_keeper.RecordWriter(str(tmp_path / "theirs")), attributes_to_search_for=names
        )
    )
    assert ours == theirs
    assert "metric_loss_ContrastiveLoss" in ours


@pytest.mark.rule("H-9")
@pytest.mark.parametrize(
    ("value", "error"),
    [(2**63, ValueError), (1j, TypeError), ([1, object()], TypeError), ([[2**70, 1], [1, 1]], ValueError)],
)
def test_a_value_that_no_file_can_hold_is_refused_when_it_comes(tmp_path, value, error):
    writer = RecordWriter(tmp_path, save_lists=True)
    writer.append("group", "good", 1, 1)
    with pytest.raises(error, match=r"values must be .* in series 'bad' of group 'group'"):
        writer.append("group", "bad", value, 1)
    writer.save_records()
    assert writer.query("SELECT good FROM [group]", return_dict=True) == {"good": [1]}


@pytest.mark.rule("H-9")
def test_damaged_records_are_named(tmp_path):
    (tmp_path / "logs.db").write_bytes(b"no database" * 100)
    with pytest.raises(ValueError, match=r"logs\.db must be a whole SQLite database"):
        RecordWriter(tmp_path)
    (tmp_path / "logs.db").unlink()
    writer = RecordWriter(tmp_path)
    writer.append("group", "x", 1, 1)
    writer.save_records()
    (tmp_path / "group.csv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"group\.csv must be a CSV file of records"):
        RecordWriter(tmp_path)


@pytest.mark.rule("H-9")
def test_a_save_writes_its_own_rows_only(tmp_path, monkeypatch):
    writer = RecordWriter(tmp_path)
    for i in range(3):
        writer.append("group", "x", i, i)
        writer.save_records()
    # What was read once is not read again, however long the file has become.
    monkeypatch.setattr(type(tmp_path), "read_bytes", lambda path: pytest.fail(f"{path} is read"))
    writer.append("group", "x", 3, 3)
    writer.save_records()
    monkeypatch.undo()
    assert (tmp_path / "group.csv").read_text().split() == ["~iteration~,x", "0,0", "1,1", "2,2", "3,3"]
