"""Numbers as text."""


def number(value: float) -> str:
    """Write a number in as many digits as a label needs.

    Examples
    --------
    >>> number(0.25), number(1200.0), number(1.0e-7)
    ('0.25', '1,200', '1e-07')
    """
    # NaN and infinity fail the first comparison.
    if abs(value) < 1e9 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.4g}"


def count(value: int, noun: str) -> str:
    """Write how many of something there are.

    Examples
    --------
    >>> count(1, "class"), count(2000, "class"), count(3, "query"), count(0, "row")
    ('1 class', '2,000 classes', '3 queries', '0 rows')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{value:,} {noun if value == 1 else plural}"


def share(value: float | None) -> str:
    """Write a metric: four digits after the point."""
    return "–" if value is None else f"{value:.4f}"


def percent(part: float) -> str:
    """Write a share of one in percent.

    Examples
    --------
    >>> percent(0.5), percent(0.00042), percent(0)
    ('50 %', '0.042 %', '0 %')
    """
    return f"{100 * part:.3g} %" if part else "0 %"
