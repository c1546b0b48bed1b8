"""Make the data set that nearwise ships, from a larger .npz of labelled embeddings.

    python benches/make_example.py SOURCE.npz python/nearwise/data/docstrings.npz

SOURCE.npz holds `embeddings` (n, d) and `labels` (n,). The shipped set was made from 12,000 sentences of the docstrings
of Python's standard library and of popular packages, embedded with all-MiniLM-L6-v2; a label is the package that the
sentence came from. What the set should keep is the shape of the labels: 240 classes of very uneven size, one in seven
with a single member. So whole classes are taken, every fourth in order of size, and only the largest ones are thinned.
Rows keep their order and are rounded to float16 (384 x 2 bytes each).
"""

import sys
import zipfile
from io import BytesIO

import numpy as np

STEP, LARGEST = 4, 180


def chosen_rows(labels: np.ndarray) -> np.ndarray:
    """Row numbers of every STEP-th class by (size, name), at most LARGEST evenly spaced rows of each."""
    names, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    by_size = np.lexsort((names, sizes))
    rows = []
    for name in by_size[STEP - 1 :: STEP]:
        members = np.flatnonzero(inverse == name)
        keep = np.linspace(0, len(members) - 1, min(len(members), LARGEST)).round().astype(int)
        rows.append(members[keep])
    return np.sort(np.concatenate(rows))


def write(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Like `np.savez_compressed`, with a fixed date so that the same rows give the same file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED, 9)


def main(source: str, target: str) -> None:
    with np.load(source, allow_pickle=False) as data:
        embeddings, labels = data["embeddings"], data["labels"]
    rows = chosen_rows(labels)
    labels = labels[rows]
    labels = labels.astype(f"<U{max(map(len, labels))}")
    write(target, {"embeddings": embeddings[rows].astype(np.float16), "labels": labels})
    sizes = np.unique(labels, return_counts=True)[1]
    print(f"{len(rows)} rows, {len(sizes)} classes, {np.count_nonzero(sizes == 1)} of them with one member")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_example.py SOURCE.npz TARGET.npz")
    main(*sys.argv[1:])
