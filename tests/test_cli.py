"""The command line as a user meets it."""

import subprocess
import sys

import pytest


def nearwise(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nearwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_info_names_versions_level_threads_and_optional_packages() -> None:
    done = nearwise("info")
    assert done.returncode == 0, done.stderr
    said = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert said.keys() >= {"nearwise", "numpy", "threads", "torch", "faiss"}
    assert said["level"] in ("portable", "avx2", "avx512")


def test_info_says_what_the_environment_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARWISE_NUM_THREADS", "3")
    monkeypatch.setenv("NEARWISE_SIMD", "portable")
    said = {line.split()[0]: line.split()[1] for line in nearwise("info").stdout.splitlines()}
    assert (said["threads"], said["level"]) == ("3", "portable")
    monkeypatch.setenv("NEARWISE_SIMD", "sse9")
    done = nearwise("info")
    assert done.returncode == 1
    assert done.stderr == 'nearwise: NEARWISE_SIMD must be portable, avx2 or avx512, got "sse9"\n'


@pytest.mark.parametrize("arguments", [["nosuch"], ["info", "--nosuch"], ["info", "extra"]])
def test_a_wrong_command_line_is_one_line_and_status_2(arguments: list[str]) -> None:
    done = nearwise(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("nearwise")
    assert done.stderr.count("\n") == 1


def test_without_click_one_line_names_the_extra() -> None:
    program = "import sys; sys.modules['click'] = None; from nearwise.cli import main; sys.exit(main(['info']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "nearwise: the command line needs click: pip install 'nearwise[cli]'\n"


def test_help_lists_every_subcommand() -> None:
    from nearwise.cli.group import SUBCOMMANDS

    done = nearwise("--help")
    assert done.returncode == 0
    for name in SUBCOMMANDS:
        assert f"  {name} " in done.stdout
