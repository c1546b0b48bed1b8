"""What libraries say of damaged files, as one kind of error that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import error as StructError  # noqa: N812
from tokenize import TokenError
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

# NumPy parses a header as a Python expression, and reads an .npz through zipfile.
_ERRORS = (ValueError, TypeError, EOFError, KeyError, OverflowError, RecursionError, NotImplementedError,
           SyntaxError, TokenError, BadZipFile, StructError, ZlibError)  # fmt: skip


@contextmanager
def damage_named(label: object, expected: str) -> Iterator[None]:
    """Turn what reading a damaged file raises in the body into a ValueError.

    Examples
    --------
    >>> with damage_named("a.npz", "an .npz file"):
    ...     raise BadZipFile("Bad CRC-32")
    Traceback (most recent call last):
        ...
    ValueError: a.npz: not an .npz file, or a damaged one: Bad CRC-32
    """
    try:
        yield
    except _ERRORS as error:
        what = str(error.args[0]) if error.args else type(error).__name__
        if "allow_pickle" in what:
            raise ValueError(f"{label}: not {expected}: it holds Python objects") from None
        raise ValueError(f"{label}: not {expected}, or a damaged one: {what}") from None
