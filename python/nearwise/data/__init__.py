"""A small set of real embeddings with labels, for examples and first steps."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Example", "load_example"]


class Example(NamedTuple):
    """Labelled embeddings.

    Attributes
    ----------
    embeddings
        float16, shape (1635, 384): one row of norm about 1 per sentence.
    labels
        strings, shape (1635,): the Python package or module whose docstrings the sentence is from. 60 classes of very
        uneven size, nine of them with a single member.
    """

    embeddings: npt.NDArray[np.float16]
    labels: npt.NDArray[np.str_]


def load_example() -> Example:
    """Load the built-in set: sentences from Python docstrings, embedded with all-MiniLM-L6-v2.

    Returns
    -------
    Example
        The pair `(embeddings, labels)`; new arrays on every call.

    Examples
    --------
    >>> import nearwise
    >>> embeddings, labels = nearwise.load_example()
    >>> embeddings.shape, embeddings.dtype.name
    ((1635, 384), 'float16')
    >>> str(labels[0])
    'fsspec'
    """
    with np.load(Path(__file__).with_name("docstrings.npz"), allow_pickle=False) as arrays:
        return Example(arrays["embeddings"], arrays["labels"])
