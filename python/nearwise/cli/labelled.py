"""What an evaluation is about: embeddings with their labels, from files."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import nearwise
from nearwise.cli.labels import labels_beside, read_labels
from nearwise.cli.reading import Source, read_rows, widened

Array = npt.NDArray[Any]
BUILT_IN = "the built-in embeddings"


class Labelled(NamedTuple):
    """Embeddings, one label for each, and what to call them."""

    name: str
    source: Source
    labels: Array

    @property
    def rows(self) -> Array:
        """The embeddings."""
        return self.source.rows


def built_in() -> Labelled:
    """Return the embeddings that come with the package."""
    example = nearwise.load_example()
    return Labelled(BUILT_IN, Source(example.embeddings), np.asarray(example.labels))


def read_labelled(path: str, labels: str | None, option: str) -> Labelled:
    """Read embeddings and their labels.

    Parameters
    ----------
    path
        The embeddings, as `read_rows` takes them.
    labels
        A file of labels; without it they are in the file of the embeddings.
    option
        What would name such a file, for messages.

    Raises
    ------
    ValueError
        No labels, no rows, or not one label for each row.
    """
    source = read_rows(path)
    found = labels_beside(path) if labels is None else read_labels(labels)
    if found is None:
        raise ValueError(f"{path}: it holds no labels; name a file of them with {option}")
    if len(source.rows) == 0:
        raise ValueError(f"{path}: it holds no rows")
    if len(found) != len(source.rows):
        raise ValueError(f"{labels or path}: expected one label for each of {len(source.rows)} rows, got {len(found)}")
    return Labelled(path, source, found)


def same_type(query: Labelled, reference: Labelled) -> Labelled:
    """Return the query with its element type widened to the reference's.

    Raises
    ------
    ValueError
        Rows of different lengths.
    """
    if query.rows.shape[1] != reference.rows.shape[1]:
        raise ValueError(
            f"{query.name} has {query.rows.shape[1]} features and {reference.name} {reference.rows.shape[1]}"
        )
    return query._replace(source=widened(query.source, reference.source))
