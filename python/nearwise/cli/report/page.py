"""The page around the sections."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearwise.cli.report import sections
from nearwise.cli.report.markup import Child, Markup, element

_FOLDER = Path(__file__).parent


def page(found: Mapping[str, Any]) -> str:
    """Show what `nearwise.cli.measurements.measure` found as an HTML page.

    The page holds its style, its drawings and the few lines of script that sort the table of classes. Its policy lets
    it load nothing and run no other script, so that not even a mistake in escaping a label would.
    """
    title = f"Evaluation of {found['query']['source']}"
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "sort.js"))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_digest(script)}'; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body", element("main", _header(title, found), *_body(found), _footer(found)), element("script", Markup(script))
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _digest(script: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _header(title: str, found: Mapping[str, Any]) -> Markup:
    return element("header", element("h1", title), sections.facts(found))


def _body(found: Mapping[str, Any]) -> list[Markup]:
    spread = sections.class_spread(found)
    charts = [_section("Rank curves", sections.rank_curves(found)), _section("Pairs", sections.pairs(found))]
    if spread is not None:
        charts.append(_section("Spread of the classes", spread))
    charts.append(_section("Taken for one another", sections.confusions(found)))
    return [
        _section("Metrics", sections.metrics(found)),
        element("div", charts, class_="charts"),
        _section("Classes", sections.class_table(found)),
        _section("Wrong neighbours", sections.examples(found, "wrong")),
        _section("Right neighbours", sections.examples(found, "right")),
    ]


def _section(title: str, *children: Child) -> Markup:
    return element("section", element("h2", title), *children)


def _footer(found: Mapping[str, Any]) -> Markup:
    return element("footer", f"Made by nearwise {found['nearwise']}. Hover over a drawing to read its numbers.")
