"""The documents say what is true: their examples run, their links lead somewhere."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def fenced(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "least"), [("README.md", 10), ("docs/pytorch-metric-learning.md", 5)])
def test_the_python_examples_print_what_a_document_says(name: str, least: int) -> None:
    pytest.importorskip("torch")
    source = "\n".join(fenced("python", (ROOT / name).read_text()))
    assert source.count(">>>") > least
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(source, {}, name, str(ROOT / name), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


def command_lines() -> list[str]:
    lines = [line.partition("#")[0].strip() for block in fenced("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("nearwise ")]


def test_the_readme_shows_the_command_line() -> None:
    assert len(command_lines()) >= 2


@pytest.mark.parametrize("line", command_lines())
def test_the_command_lines_of_the_readme_run(line: str, tmp_path: Path) -> None:
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_demo_prints_what_the_readme_says(capsys: pytest.CaptureFixture[str]) -> None:
    from nearwise.cli import main

    makefile = (ROOT / "Makefile").read_text()
    (demo,) = re.findall(r"^DEMO \?= (.*)$", makefile, re.MULTILINE)
    assert f"`nearwise {demo}`" in README
    assert main([demo.split()[0]]) == 0
    assert capsys.readouterr().out in fenced("text")


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_make_target_that_a_document_names_exists() -> None:
    named = {
        target for path in DOCUMENTS for target in re.findall(r"\bmake ([a-z-]+)(?=[\s`]*[`#\n])", path.read_text())
    }
    assert {"demo", "ci"} <= named
    assert named <= make_targets()


def test_make_help_lists_at_most_twelve_targets() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert 1 < len(done.stdout.splitlines()) == len(make_targets()) <= 12


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(path: Path) -> None:
    text = path.read_text()
    headings = {anchor(line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif "://" not in target:
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_the_extras_table_is_that_of_the_package() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    section = README.partition("## Extras")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]
    assert {name.strip("`") for name, _, _ in rows} == set(extras)
    for name, brings, _ in rows[:-1]:
        expected = {re.split(r"[<>=\[]", requirement)[0] for requirement in extras[name.strip("`")]}
        assert {part.strip() for part in brings.split(",")} == expected, name
