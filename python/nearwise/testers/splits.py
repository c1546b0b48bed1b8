"""Which dataset splits are queries, which are their references, and under what name the result is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearwise.errors import ContractError

Evaluation = tuple[str, list[str]]


def evaluations(dataset_dict: Mapping[str, Any], splits_to_eval: Iterable[Any] | None) -> list[Evaluation]:
    """Return the (query, references) pairs to evaluate, checked, without touching what was passed.

    Parameters
    ----------
    dataset_dict : mapping
        The datasets by split name.
    splits_to_eval : iterable of (str, sequence of str), optional
        Each query split and the splits that its neighbours are looked for in. None: each split in itself.

    Returns
    -------
    list of (str, list of str)
        References without repetition; a query that is among its references comes first of them.

    Raises
    ------
    KeyError
        If a split is not in `dataset_dict`.
    ContractError
        If a pair has no references, or occurs twice.
    TypeError
        If an entry is no pair of a name and a sequence of names.
    """
    if splits_to_eval is None:
        splits_to_eval = [(name, [name]) for name in dataset_dict]
    found: list[Evaluation] = []
    for entry in splits_to_eval:
        query, references = _entry(entry)
        for name in (query, *references):
            if name not in dataset_dict:
                raise KeyError(f"split {name!r} is not in dataset_dict, which has {sorted(dataset_dict)}")
        if not references:
            raise ContractError(f"splits_to_eval: query split {query!r} needs at least one reference split, got none")
        ordered = list(dict.fromkeys(([query] if query in references else []) + references))
        if any(query == q and set(ordered) == set(r) for q, r in found):
            raise ContractError(f"splits_to_eval: {query!r} against {ordered} occurs twice")
        found.append((query, ordered))
    return found


def result_key(query: str, references: list[str], taken: Iterable[str]) -> str:
    """Return the name of a result: the query's, or with its references once that is taken.

    Raises
    ------
    ContractError
        If that name is taken too.
    """
    taken = set(taken)
    key = query if query not in taken else f"{query}_vs_{'_and_'.join(sorted(references))}"
    if key in taken:
        raise ContractError(f"splits_to_eval: two results would be called {key!r}; rename a split")
    return key


def _entry(entry: Any) -> Evaluation:
    """Return one entry of splits_to_eval as a name and a list of names."""
    wanted = "splits_to_eval must hold (query split, [reference splits])"
    if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 2:
        raise TypeError(f"{wanted}, got {entry!r}")
    query, references = entry
    if isinstance(references, str) or not isinstance(references, Iterable):
        raise TypeError(f"{wanted}, got {references!r} as the references of {query!r}")
    return query, list(references)
