"""What the report shows of the measurements, section by section."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearwise.cli.evaluate_table import ranking_metric, worst_first
from nearwise.cli.report import charts
from nearwise.cli.report.markup import Markup, content, element
from nearwise.cli.wording import count, number, share

MOST_CLASSES = 1000
EXPLAINED = {
    "precision_at_1": "queries whose nearest neighbour has their label",
    "r_precision": "matches among the first R, R being as many as there are",
    "mean_average_precision_at_r": "precision at each match among the first R, summed, over R",
    "mean_average_precision": "precision at each match, whatever its rank, averaged",
    "mean_reciprocal_rank": "one over the rank of the first match",
    "AMI": "clusters and labels: mutual information, adjusted for chance",
    "NMI": "clusters and labels: mutual information, normalised",
}
Found = Mapping[str, Any]


def facts(found: Found) -> Markup:
    """Say what was evaluated."""
    query, reference, queries = found["query"], found["reference"], found["queries"]
    rows = {"embeddings": _side(query)}
    if reference is not None:
        rows["searched in"] = _side(reference)
    else:
        rows["searched in"] = "the same rows, each among the others"
    if reference is not None and found["self_query"]:
        rows["searched in"] += "; it begins with the embeddings, and no row finds itself"
    rows["distance"] = found["distance"]["name"] + (
        " (larger is nearer)" if found["distance"]["larger_is_nearer"] else ""
    )
    rows["evaluated"] = f"{count(queries['evaluated'], 'row')} of {count(len(found['classes']), 'class')}"
    if queries["left_out"]:
        whose = "no other row has" if found["self_query"] else "no reference has"
        rows["left out"] = f"{count(queries['left_out'], 'row')} whose label {whose}"
    return element("dl", ((element("dt", name), element("dd", text)) for name, text in rows.items()), class_="facts")


def metrics(found: Found) -> Markup:
    """Show each metric, with the mean over classes and what it means."""
    cards = []
    for name, value in found["metrics"].items():
        of_classes = found["class_means"].get(name)
        second = None
        if of_classes is not None:
            second = element("p", "mean over classes ", _value("span", of_classes), class_="second")
        cards.append(
            element("div", element("h3", _breakable(name)), _value("p", value, class_="value"), _meter(value), second,
                    element("p", _explained(name), class_="words"), class_="card", data_metric=name)
        )  # fmt: skip
    return element("div", cards, class_="cards")


def rank_curves(found: Found) -> Markup:
    """Draw precision and recall over k."""
    curve = found["curves"]
    series = [
        charts.Series("precision", "first", curve["precision"]),
        charts.Series("recall", "second", curve["recall"]),
    ]
    words = (
        ("first", "precision at k", "which part of the k nearest has the query's label"),
        ("second", "recall at k", "how many queries have any match among their k nearest"),
    )
    return element("figure", charts.curves(curve["k"], series), charts.legend(words))


def pairs(found: Found) -> Markup:
    """Draw how near rows of one label and of different labels are."""
    counted = found["pairs"]
    name = found["distance"]["name"]
    axis = f"{name} {'similarity' if found['distance']['larger_is_nearer'] else 'distance'}"
    kinds = [("same", "same label", "second"), ("different", "different labels", "third")]
    series = [charts.Series(said, style, counted[kind]["counts"]) for kind, said, style in kinds]
    marks = [counted[kind]["median"] for kind, _, _ in kinds]
    words = [(style, said, _pair_words(counted[kind])) for kind, said, style in kinds]
    return element("figure", charts.histogram(counted["edges"], series, axis, marks), charts.legend(words))


def class_spread(found: Found) -> Markup | None:
    """Draw how a metric spreads over the classes."""
    metric = ranking_metric(found)
    if metric is None or len(found["classes"]) < 2:
        return None
    counts, edges = np.histogram([each["metrics"][metric] for each in found["classes"]], bins=20, range=(0, 1))
    words = [("first", count(len(found["classes"]), "class"), f"by their {metric}")]
    return element("figure", charts.bars(edges.tolist(), counts.tolist(), metric, "classes"), charts.legend(words))


def class_table(found: Found) -> Markup:
    """List the classes with their metrics; those that do worst first."""
    metric = ranking_metric(found)
    if metric is None:
        return element("p", "No metric of classes was asked for.", class_="note")
    classes = worst_first(found, metric)
    names = list(classes[0]["metrics"])
    sortable = [
        ("label", "class"),
        ("number", "queries"),
        ("number", "relevant"),
        *(("number", name) for name in names),
    ]
    head = element("tr", (
        element("th", element("button", _breakable(said), type="button"), scope="col", class_=kind, data_kind=kind,
                aria_sort="ascending" if said == metric else "none")
        for kind, said in sortable
    ))  # fmt: skip
    rows = [
        element("tr", element("th", label(each["label"]), scope="row", class_="label"),
                _count(each["queries"]), _count(each["relevant"]),
                (_value("td", each["metrics"][name], class_="number metric", style=_part(each["metrics"][name]))
                 for name in names))
        for each in classes[:MOST_CLASSES]
    ]  # fmt: skip
    return element("div", _class_note(len(classes), metric),
                   element("div", element("table", element("thead", head), element("tbody", rows), id="classes"),
                           class_="scroll", tabindex=0))  # fmt: skip


def examples(found: Found, kind: str) -> Markup:
    """List queries with their nearest neighbours."""
    shown = found["examples"][kind]["shown"]
    if not shown:
        return element("p", f"No query's nearest neighbour is {kind}.", class_="note")
    words = element("p", _example_words(found["examples"])[kind], class_="note")
    names = ["query", *map(str, range(1, found["examples"]["neighbors"] + 1))]
    head = element("tr", (element("th", name, scope="col") for name in names))
    rows = [
        element("tr", element("th", _row(each["query"], each["label"]), scope="row"),
                (_neighbor(near) for near in each["neighbors"]))
        for each in shown
    ]  # fmt: skip
    table = element("table", element("thead", head), element("tbody", rows), class_="examples", data_kind=kind)
    return content([words, element("div", table, class_="scroll whole", tabindex=0)])


def confusions(found: Found) -> Markup:
    """List which labels are taken for which."""
    pairs = found["examples"]["confusions"]
    if not pairs:
        return element("p", "Every nearest neighbour that was looked at has the label of its query.", class_="note")
    most = pairs[0]["queries"]
    names = (("label", "label"), ("its nearest neighbour", "label"), ("queries", "number"))
    head = element("tr", (element("th", said, scope="col", class_=kind) for said, kind in names))
    rows = [
        element("tr", element("th", label(each["label"]), scope="row"), element("td", label(each["nearest"])),
                element("td", f"{each['queries']:,}", class_="number metric", data_value=each["queries"],
                        style=_part(each["queries"] / most)))
        for each in pairs
    ]  # fmt: skip
    return element("div", element("table", element("thead", head), element("tbody", rows), class_="confusions"),
                   class_="scroll whole", tabindex=0)  # fmt: skip


def label(value: Any) -> Markup:
    """Show a label; its direction of writing stays its own."""
    text = str(value)
    return element("bdi", text if text.strip() else repr(text), title=text if len(text) > 24 else None)


def _example_words(shown: Found) -> dict[str, str]:
    wrong, right = shown["wrong"], shown["right"]
    looked = "" if wrong["looked_at"] == wrong["queries"] else f", of {wrong['looked_at']:,} that were looked at,"
    whose = "whose nearest neighbour has"
    return {
        "wrong": f"{count(wrong['queries'], 'query')} {whose} another label. Shown are those{looked} with the "
        "nearest of all: the most convincing errors.",
        "right": f"{count(right['queries'], 'query')} {whose} their label. Shown are some, evenly spaced.",
    }


def _side(side: Found) -> str:
    sizes = count(side["rows"], "row"), count(side["features"], "feature"), count(side["classes"], "label")
    return f"{side['source']}: {', '.join(sizes)}, {side['dtype']}"


def _breakable(name: str) -> list[Markup]:
    """Let a long name break after its underscores."""
    first, *rest = re.split("(?<=_)", name)
    return [content(first), *(content([element("wbr"), part]) for part in rest)]


def _explained(name: str) -> str:
    if name in EXPLAINED:
        return EXPLAINED[name]
    kind, _, k = name.partition("_at_")
    return f"matches among the {k} nearest" if kind == "precision" else f"queries with a match among the {k} nearest"


def _value(name: str, value: float | None, **attributes: object) -> Markup:
    """Show a number rounded; the attribute holds it as the JSON does."""
    return element(name, share(value), data_value=None if value is None else repr(value), **attributes)


def _count(value: int) -> Markup:
    return element("td", f"{value:,}", class_="number", data_value=value)


def _part(value: float) -> str:
    return f"--part:{100 * value:.1f}%"


def _meter(value: float) -> Markup:
    return element("div", class_="meter", style=_part(min(max(value, 0.0), 1.0)))


def _pair_words(kind: Found) -> str:
    if not kind["pairs"]:
        return "no pairs"
    said = f"all {kind['pairs']:,} pairs" if kind["exact"] else (
        f"a random sample of {kind['counted']:,} of {kind['pairs']:,} pairs"
    )  # fmt: skip
    odd = f", {kind['not_finite']:,} of them not finite" if kind["not_finite"] else ""
    return f"{said}{odd}" + (f"; median {number(kind['median'])} (dashed)" if kind["median"] is not None else "")


def _class_note(classes: int, metric: str) -> Markup:
    ordered = f"Lowest {metric} first; click a heading to sort by it. "
    if classes > MOST_CLASSES:
        ordered += f"These are the {MOST_CLASSES:,} lowest of {classes:,} classes; the JSON has them all. "
    return element("p", ordered, "Relevant is how many matches each of their queries has.", class_="note")


def _row(index: int, value: Any, *more: Markup) -> Sequence[Markup]:
    return element("span", label(value), class_="name"), element("span", f"#{index}", *more, class_="under")


def _neighbor(near: Found) -> Markup:
    sign = element("span", "✓" if near["same"] else "✗", class_="sign", title="match" if near["same"] else "no match")
    value = element("span", number(near["value"]), data_value=repr(near["value"]))
    row = _row(near["index"], near["label"], content(" · "), value)
    return element("td", sign, row, class_="match" if near["same"] else "miss")
