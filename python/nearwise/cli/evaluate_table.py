"""What `nearwise evaluate` prints: the metrics, and the classes that do worst."""

from collections.abc import Mapping
from typing import Any
from unicodedata import east_asian_width

from nearwise.cli.wording import count

WORST = 5
LABEL_WIDTH = 32
# By which of the metrics classes are compared, the first that was computed.
RANKING = ("mean_average_precision_at_r", "mean_average_precision", "r_precision", "precision_at_1")


def table(found: Mapping[str, Any]) -> str:
    """Lay the measurements out as lines of text."""
    names = list(found["metrics"])
    width = max(len("metric"), *map(len, names))
    lines = [*headline(found), "", f"{'metric':<{width}}     mean  mean over classes"]
    for name, value in found["metrics"].items():
        of_classes = found["class_means"].get(name)
        lines.append(f"{name:<{width}}  {value:7.4f}  {'' if of_classes is None else f'{of_classes:17.4f}'}".rstrip())
    return "\n".join(lines + _worst(found))


def headline(found: Mapping[str, Any]) -> list[str]:
    """Say in a few lines what was evaluated."""
    query, reference, queries = found["query"], found["reference"], found["queries"]
    where = "each among the others"
    if reference is not None:
        itself = ", without themselves" if found["self_query"] else ""
        where = f"in {count(reference['rows'], 'row')} of {reference['source']}{itself}"
    sizes = f"{count(query['features'], 'feature')}, {query['dtype']}, {count(query['classes'], 'class')}"
    lines = [
        f"{count(query['rows'], 'row')} of {query['source']}, {where}",
        f"{sizes}, distance {found['distance']['name']}",
    ]
    if queries["left_out"]:
        why = "no other row has" if found["self_query"] else "no reference has"
        lines.append(f"{count(queries['left_out'], 'row')} left out, whose label {why}")
    return lines


def ranking_metric(found: Mapping[str, Any]) -> str | None:
    """Return the metric by which classes are compared; None if there is no metric of classes."""
    computed = found["class_means"]
    return next((name for name in (*RANKING, *computed) if name in computed), None)


def worst_first(found: Mapping[str, Any], metric: str) -> list[dict[str, Any]]:
    """Return the classes by a metric, ascending; of equal ones those with more queries first."""
    return sorted(found["classes"], key=lambda each: (each["metrics"][metric], -each["queries"]))


def shown(label: Any) -> str:
    r"""Return a label as one line of printable text.

    Examples
    --------
    >>> print(shown("a\x1b[31m"), shown(7), shown(""))
    a\x1b[31m 7 ''
    """
    text = str(label)
    if not text.strip():
        return repr(text)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _worst(found: Mapping[str, Any]) -> list[str]:
    metric = ranking_metric(found)
    if metric is None or len(found["classes"]) < 2:
        return []
    worst = worst_first(found, metric)[:WORST]
    names = [_cut(shown(each["label"])) for each in worst]
    width = max(len("class"), *map(_columns, names))
    lines = ["", f"lowest {metric}", f"{'class':<{width}}   value   rows"]
    lines += [
        f"{_padded(name, width)}  {each['metrics'][metric]:6.4f}  {each['queries']:5}"
        for name, each in zip(names, worst, strict=True)
    ]
    return lines


def _cut(text: str) -> str:
    if _columns(text) <= LABEL_WIDTH:
        return text
    while _columns(text) > LABEL_WIDTH - 1:
        text = text[:-1]
    return text + "…"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _columns(text: str) -> int:
    """Return how many columns a terminal gives a text; characters of East Asia take two."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)
