"""HTML elements whose content cannot be mistaken for HTML."""

from collections.abc import Iterable
from html import escape

_VOID = {"meta", "br", "wbr"}


class Markup(str):
    """Text that is HTML already. Every other string is escaped when it becomes part of an element."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Make an element.

    Parameters
    ----------
    name
        Of the element.
    children
        Elements, text, and iterables of these; None is nothing.
    attributes
        A trailing underscore is dropped (`class_`), others become hyphens (`data_value`); None and False leave an
        attribute out.

    Examples
    --------
    >>> element("td", "<b>", element("br"), class_="label", data_value=1)
    '<td class="label" data-value="1">&lt;b&gt;<br></td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_clean(str(value)))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    start = f"<{name}{given}>"
    return Markup(start if name in _VOID else f"{start}{content(children)}</{name}>")


def content(children: Child) -> Markup:
    """Join what may be in an element, escaped where it is not `Markup`."""
    if isinstance(children, Markup):
        return children
    if children is None:
        return Markup()
    if isinstance(children, str | int):
        return Markup(escape(_clean(str(children))))
    return Markup("".join(map(content, children)))


def _clean(text: str) -> str:
    """Write out what a page cannot hold (control characters, halves of surrogate pairs) or what would reorder it."""
    return "".join(_written_out(each) if _is_odd(each) else each for each in text)


def _is_odd(each: str) -> bool:
    code = ord(each)
    return (
        code < 32
        or 127 <= code < 160
        or 0xD800 <= code < 0xE000
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
    )


def _written_out(each: str) -> str:
    return each.encode("unicode_escape").decode()
