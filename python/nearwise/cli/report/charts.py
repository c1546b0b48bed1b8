"""Drawings in SVG: curves over ranks, and histograms. Colours come from the page's style."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nearwise.cli.report.markup import Markup, element
from nearwise.cli.report.scale import Scale, ranks, ticks
from nearwise.cli.wording import number, percent, share

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44
LOG_FROM = 60  # ranks; longer curves have a logarithmic axis


class Series(NamedTuple):
    """Numbers under one name; `style` is the class that gives it its colour."""

    name: str
    style: str
    values: Sequence[float]


def curves(depths: Sequence[int], series: Sequence[Series]) -> Markup:
    """Draw metrics over the rank k, each point with its numbers on hovering."""
    log = depths[-1] > LOG_FROM
    x = Scale(depths[0], depths[-1], LEFT + 8, WIDTH - RIGHT - 8, log)
    y = _up(1.0)
    parts = [
        _grid(y, ticks(0, 1), number, "value"),
        _bottom_axis(x, ranks(depths, log=log), "k, neighbours" + (" (logarithmic)" if log else "")),
    ]
    for each in series:
        points = [(x(k), y(value)) for k, value in zip(depths, each.values, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(element("polyline", points=path, class_=f"line {each.style}"))
        parts += [
            element("circle", element("title", f"{each.name} at {k}: {share(value)}"), cx=f"{a:.1f}", cy=f"{b:.1f}",
                    r=3 if len(points) <= 50 else 2, class_=f"dot {each.style}")
            for (a, b), k, value in zip(points, depths, each.values, strict=True)
        ]  # fmt: skip
    spoken = "; ".join(f"{each.name} from {share(each.values[0])} to {share(each.values[-1])}" for each in series)
    return _drawing(parts, f"Curves over k from {depths[0]} to {depths[-1]}: {spoken}")


def histogram(edges: Sequence[float], series: Sequence[Series], axis: str, marks: Sequence[float | None]) -> Markup:
    """Draw the share of each series in every bin as steps, with a line at a value of each (its median)."""
    totals = [sum(each.values) for each in series]
    shares = [
        [value / total if total else 0.0 for value in each.values] for each, total in zip(series, totals, strict=True)
    ]
    highest = max(map(max, shares)) or 1.0
    x = Scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    y = _up(highest * 1.06)
    parts = [
        _grid(y, ticks(0, highest), percent, "share of its pairs"),
        _bottom_axis(x, ticks(edges[0], edges[-1], 7), axis),
    ]
    for each, heights in zip(series, shares, strict=True):
        if any(heights):
            parts.append(element("path", d=_steps(edges, heights, x, y), class_=f"area {each.style}"))
    for each, mark in zip(series, marks, strict=True):
        if mark is not None:
            at = f"{x(mark):.1f}"
            parts.append(element("line", x1=at, x2=at, y1=TOP, y2=HEIGHT - BOTTOM, class_=f"mark {each.style}"))
    for place in range(len(edges) - 1):
        said = ", ".join(
            f"{each.name} {each.values[place]:,} ({percent(heights[place])})"
            for each, heights in zip(series, shares, strict=True)
        )
        title = f"{number(edges[place])} to {number(edges[place + 1])}: {said}"
        left, right = x(edges[place]), x(edges[place + 1])
        parts.append(_hover(left, right - left, element("title", title)))
    spoken = "; ".join(f"{each.name}: {total:,}" for each, total in zip(series, totals, strict=True))
    return _drawing(parts, f"Histogram over {axis} from {number(edges[0])} to {number(edges[-1])}. {spoken}")


def bars(edges: Sequence[float], counts: Sequence[int], axis: str, noun: str) -> Markup:
    """Draw counts as bars."""
    highest = max(counts) or 1
    x = Scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    y = _up(highest * 1.06)
    whole = [tick for tick in ticks(0, highest) if tick == int(tick)]
    parts = [_grid(y, whole, number, noun), _bottom_axis(x, ticks(edges[0], edges[-1]), axis)]
    for place, count in enumerate(counts):
        left, right = x(edges[place]) + 1, x(edges[place + 1]) - 1
        title = element("title", f"{number(edges[place])} to {number(edges[place + 1])}: {count:,} {noun}")
        parts.append(element("rect", title, x=f"{left:.1f}", y=f"{y(count):.1f}", width=f"{right - left:.1f}",
                             height=f"{HEIGHT - BOTTOM - y(count):.1f}", rx=1.5, class_="bar"))  # fmt: skip
        parts.append(_hover(left, right - left, title))
    return _drawing(parts, f"Histogram over {axis} of {sum(counts):,} {noun}")


def legend(entries: Sequence[tuple[str, str, str]]) -> Markup:
    """Explain series: a style, a name and a few words on each."""
    return element(
        "ul",
        (
            element("li", element("span", class_=f"key {style}"), element("b", name), " ", words)
            for style, name, words in entries
        ),
        class_="legend",
    )


def _hover(left: float, width: float, title: Markup) -> Markup:
    """Make what shows a title over the whole height of a bin."""
    height = HEIGHT - BOTTOM - TOP
    return element("rect", title, x=f"{left:.1f}", y=TOP, width=f"{width:.2f}", height=height, class_="hover")


def _up(highest: float) -> Scale:
    return Scale(0.0, highest, HEIGHT - BOTTOM, TOP)


def _steps(edges: Sequence[float], heights: Sequence[float], x: Scale, y: Scale) -> str:
    path = [f"M{x(edges[0]):.1f},{y(0):.1f}"]
    for place, height in enumerate(heights):
        path.append(f"V{y(height):.1f}H{x(edges[place + 1]):.1f}")
    return "".join([*path, f"V{y(0):.1f}Z"])


def _grid(y: Scale, at: Sequence[float], said: Callable[[float], str], title: str) -> Markup:
    lines = [
        (
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y(tick):.1f}", y2=f"{y(tick):.1f}",
                    class_="base" if tick == 0 else "grid"),
            element("text", said(tick), x=LEFT - 8, y=f"{y(tick) + 4:.1f}",
                    text_anchor="end"),
        )
        for tick in at
    ]  # fmt: skip
    return element("g", lines, element("text", title, x=6, y=14, class_="title"), class_="axis")


def _bottom_axis(x: Scale, at: Sequence[float], title: str) -> Markup:
    base = HEIGHT - BOTTOM
    marks = [
        (
            element("line", x1=f"{x(tick):.1f}", x2=f"{x(tick):.1f}", y1=base, y2=base + 4, class_="base"),
            element("text", number(tick), x=f"{x(tick):.1f}", y=base + 18, text_anchor="middle"),
        )
        for tick in at
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    name = element("text", title, x=f"{middle:.0f}", y=HEIGHT - 6, text_anchor="middle", class_="title")
    return element("g", marks, name, class_="axis")


def _drawing(parts: Sequence[Markup], description: str) -> Markup:
    return element("svg", parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=description)
