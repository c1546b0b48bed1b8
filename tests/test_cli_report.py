"""The HTML report of `nearwise evaluate`: its numbers are the JSON's, and it needs nothing but itself."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import browser
from nearwise.cli import main
from nearwise.cli.report import sections
from nearwise.cli.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src="https://example.com/x.png" onerror="window.hacked = 1">',
    "</style><style>@import 'https://example.com/x.css'",
    "&lt;b&gt; & <b>bold</b>",
    "' onmouseover='window.hacked = 1",
]


def report(tmp_path: Path, *arguments: object) -> tuple[Path, dict[str, Any]]:
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    assert main(["evaluate", *map(str, arguments), "--html", str(page), "--json", str(numbers)]) == 0
    return page, json.loads(numbers.read_text())


def saved(tmp_path: Path, labels: Any, *, seed: int = 5, apart: float = 1.0) -> Path:
    labels = np.asarray(labels)
    random = np.random.default_rng(seed)
    _, numbers = np.unique(labels, return_inverse=True)
    centres = apart * random.standard_normal((numbers.max() + 1, 8))
    rows = centres[numbers] + random.standard_normal((len(labels), 8))
    np.savez(tmp_path / "data.npz", embeddings=rows.astype(np.float32), labels=labels)
    return tmp_path / "data.npz"


class Elements(HTMLParser):
    """All elements with their attributes, and the text of each kind."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.rule("V-3")
def test_nothing_in_the_page_names_a_place_to_load_from(tmp_path: Path) -> None:
    text = report(tmp_path)[0].read_text()
    elements = Elements(text).found
    assert len(elements) > 500
    assert not [tag for tag, _ in elements if tag in ("link", "img", "iframe", "object", "embed", "base", "use", "a")]
    for _, attributes in elements:
        assert not {"src", "href", "xlink:href", "srcset", "action", "data"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = [attributes["content"] for _, attributes in elements if "http-equiv" in attributes]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]


@pytest.mark.rule("V-4")
def test_every_text_of_an_element_is_escaped() -> None:
    assert (
        element("p", "<b>", ["&", element("i", "x")], title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;<i>x</i></p>'
    )
    assert element("p", Markup("<b></b>"), None, 7) == "<p><b></b>7</p>"
    assert element("p", "a\x00\x1b\u202eb\ud800\n") == "<p>a\\x00\\x1b\\u202eb\\ud800\\n</p>"


@pytest.mark.rule("V-4")
def test_hostile_labels_add_no_element(tmp_path: Path) -> None:
    page, _ = report(tmp_path, saved(tmp_path, [each for each in HOSTILE for _ in range(4)]))
    harmless = tmp_path / "harmless"
    harmless.mkdir()
    other, _ = report(harmless, saved(harmless, [str(number) * 30 for number in range(5) for _ in range(4)]))
    tags = [[tag for tag, _ in Elements(each.read_text()).found] for each in (page, other)]
    assert tags[0].count("script") == tags[1].count("script") == 1
    assert set(tags[0]) == set(tags[1])


def test_the_same_data_give_the_same_page(tmp_path: Path) -> None:
    data = saved(tmp_path, np.arange(40) // 4)
    assert report(tmp_path, data)[0].read_bytes() == report(tmp_path, data)[0].read_bytes()


def test_data_without_errors_say_so(tmp_path: Path) -> None:
    page, numbers = report(tmp_path, saved(tmp_path, np.arange(40) // 10, apart=50))
    assert numbers["metrics"]["precision_at_1"] == 1
    assert "No query&#x27;s nearest neighbour is wrong." in page.read_text()


def test_a_single_class_has_no_pairs_of_different_labels(tmp_path: Path) -> None:
    page, numbers = report(tmp_path, saved(tmp_path, ["all"] * 12))
    assert numbers["pairs"]["different"]["pairs"] == 0
    assert "<b>different labels</b> no pairs" in page.read_text()


def test_rows_that_are_all_the_same_are_drawn(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", embeddings=np.zeros((8, 2), np.float32), labels=np.arange(8) // 4)
    page, _ = report(tmp_path, tmp_path / "data.npz")
    assert "nan" not in page.read_text()


def test_two_rows_are_enough(tmp_path: Path) -> None:
    page, numbers = report(tmp_path, saved(tmp_path, ["a", "a"]))
    assert numbers["curves"]["k"] == [1]
    assert "precision at 1: 1.0000" in page.read_text()


def test_a_page_lists_the_lowest_of_very_many_classes(tmp_path: Path) -> None:
    page, numbers = report(tmp_path, saved(tmp_path, np.arange(2400) // 2))
    assert len(numbers["classes"]) == 1200
    text = page.read_text()
    assert len(re.findall(r'<th scope="row" class="label">', text)) == sections.MOST_CLASSES
    assert "These are the 1,000 lowest of 1,200 classes" in text


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    program = browser.find()
    if program is None:
        pytest.skip(f"none of {', '.join(browser.NAMES)} is installed")
    try:
        opened = browser.Browser(program, tmp_path_factory.mktemp("profile"))
    except browser.StartError as error:  # a launcher that only says how to install the program
        pytest.skip(str(error))
    yield opened
    opened.close()


CARDS = """[...document.querySelectorAll('.card')].map(card => [card.dataset.metric,
    Number(card.querySelector('.value').dataset.value), card.querySelector('.value').textContent,
    Number(card.querySelector('.second span').dataset.value)])"""
CLASSES = """[...document.querySelectorAll('#classes tbody tr')].map(row => [row.cells[0].textContent,
    ...[...row.cells].slice(1).map(cell => Number(cell.dataset.value))])"""
TEXTS = "[...document.querySelectorAll('#classes tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
TITLES = "[...document.querySelectorAll('svg title')].map(title => title.textContent)"
EXAMPLES = """[...document.querySelectorAll('table.examples[data-kind=KIND] tbody tr')].map(row =>
    [...row.cells].map(cell => [cell.querySelector('bdi').textContent,
        Number(cell.querySelector('.under').textContent.match(/^#(\\d+)/)[1]),
        ...[...cell.querySelectorAll('[data-value]')].map(value => Number(value.dataset.value))]))"""


@pytest.mark.rule("V-3")
def test_a_browser_shows_the_numbers_of_the_json(tmp_path: Path, chromium: browser.Browser) -> None:
    page, numbers = report(tmp_path)
    chromium.open(page)
    expected = [
        [name, value, f"{value:.4f}", numbers["class_means"][name]] for name, value in numbers["metrics"].items()
    ]
    assert chromium.evaluate(CARDS) == expected
    rows = [
        [each["label"], each["queries"], each["relevant"], *each["metrics"].values()] for each in numbers["classes"]
    ]
    assert sorted(chromium.evaluate(CLASSES)) == sorted(rows)
    texts = [
        [each["label"], str(each["queries"]), str(each["relevant"])] + [f"{v:.4f}" for v in each["metrics"].values()]
        for each in numbers["classes"]
    ]
    assert sorted(chromium.evaluate(TEXTS)) == sorted(texts)
    for kind in ("wrong", "right"):
        shown = [
            [
                [each["label"], each["query"]],
                *([near["label"], near["index"], near["value"]] for near in each["neighbors"]),
            ]
            for each in numbers["examples"][kind]["shown"]
        ]
        assert len(shown) == 10
        assert chromium.evaluate(EXAMPLES.replace("KIND", kind)) == shown


@pytest.mark.rule("V-3", "V-5")
def test_a_browser_shows_the_curves_and_the_histogram_of_the_json(tmp_path: Path, chromium: browser.Browser) -> None:
    page, numbers = report(tmp_path)
    chromium.open(page)
    titles = chromium.evaluate(TITLES)
    for kind in ("precision", "recall"):
        for k, value in zip(numbers["curves"]["k"], numbers["curves"][kind], strict=True):
            assert f"{kind} at {k}: {value:.4f}" in titles
    bins = [re.search(r": same label ([\d,]+) \(.*\), different labels ([\d,]+) \(", title) for title in titles]
    counts = np.array([[int(text.replace(",", "")) for text in found.groups()] for found in bins if found])
    assert counts[:, 0].tolist() == numbers["pairs"]["same"]["counts"]
    assert counts[:, 1].tolist() == numbers["pairs"]["different"]["counts"]
    assert f"all {numbers['pairs']['same']['pairs']:,} pairs" in chromium.evaluate("document.body.innerText")


@pytest.mark.rule("V-3")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_loads_nothing_and_has_nothing_to_complain_of(
    tmp_path: Path, chromium: browser.Browser, scheme: str
) -> None:
    page, _ = report(tmp_path)
    chromium.open(page, scheme=scheme)
    assert chromium.requests == [page.as_uri()]
    assert chromium.complaints == []
    colour = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = [int(level) for level in re.findall(r"\d+", colour)]
    assert (max(levels) < 60) == (scheme == "dark")
    assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_browser_would_tell_of_requests_and_errors(tmp_path: Path, chromium: browser.Browser) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<img src='https://127.0.0.1:9/x.png'><script>nothing.at.all()</script>")
    chromium.open(page)
    assert "https://127.0.0.1:9/x.png" in chromium.requests
    assert any("nothing is not defined" in complaint for complaint in chromium.complaints)


def test_a_click_on_a_heading_sorts_the_classes(tmp_path: Path, chromium: browser.Browser) -> None:
    page, numbers = report(tmp_path)
    chromium.open(page)
    for column, key in ((1, lambda each: each["queries"]), (3, lambda each: each["metrics"]["precision_at_1"])):
        click = f"document.querySelectorAll('#classes thead button')[{column}].click()"
        expected = sorted(map(key, numbers["classes"]))
        for wanted, order in ((expected, "ascending"), (expected[::-1], "descending")):
            chromium.evaluate(click)
            assert [row[column] for row in chromium.evaluate(CLASSES)] == wanted
            headings = "[...document.querySelectorAll('#classes thead th')].map(each => each.ariaSort)"
            assert chromium.evaluate(headings)[column] == order
    assert chromium.complaints == []


@pytest.mark.rule("V-4")
def test_a_browser_shows_hostile_labels_as_text(tmp_path: Path, chromium: browser.Browser) -> None:
    page, _ = report(tmp_path, saved(tmp_path, [each for each in HOSTILE for _ in range(4)]))
    chromium.open(page)
    assert sorted(row[0] for row in chromium.evaluate(CLASSES)) == sorted(HOSTILE)
    assert chromium.evaluate("window.hacked") is None
    assert chromium.requests == [page.as_uri()]
    assert chromium.complaints == []


@pytest.mark.rule("V-3", "G-3")
@pytest.mark.parametrize(
    ("rows", "distance"),
    [
        ([[np.inf], [np.inf], [1], [2]], "euclidean"),
        ([[0], [1], [3], [7]], "snr"),
        ([[1, 1], [0, 1], [3, 1], [0, 5]], "snr"),
    ],
)
def test_distances_that_are_no_numbers_have_a_report(rows: list[list[float]], distance: str, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, embeddings=np.array(rows, np.float32), labels=np.array([0, 0, 1, 1]))
    page, numbers = report(tmp_path, data, "--distance", distance)
    assert page.stat().st_size > 0
    assert numbers


def test_a_label_file_may_hold_a_mark_and_ends_of_other_lines(tmp_path: Path) -> None:
    labels = ["a\u2028b", "a\u2028b", "c\x0b", "c\x0b"]
    np.save(tmp_path / "rows.npy", np.array([[0], [1], [5], [6]], np.float32))
    (tmp_path / "labels.txt").write_text("\ufeff" + "\n".join(labels) + "\n", encoding="utf-8")
    _, numbers = report(tmp_path, tmp_path / "rows.npy", "--labels", tmp_path / "labels.txt")
    assert sorted(entry["label"] for entry in numbers["classes"]) == sorted(set(labels))
