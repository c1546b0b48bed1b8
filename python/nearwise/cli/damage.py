"""What libraries say of damaged files, as one kind of error that names the file."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from tokenize import TokenError
from zipfile import BadZipFile

# NumPy parses a header as a Python expression, and reads an .npz through zipfile.
_ERRORS = (
    ValueError,
    TypeError,
    EOFError,
    KeyError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    SyntaxError,
    TokenError,
    BadZipFile,
    struct.error,
    zlib.error,
)


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
