"""The certificate of the torch backend: no pair is nearer than its limit, and what it allows for rounding is needed.

Shown to be needed: accumulation, rounding of the query, rounding of the reference. What it allows for drift, underflow
and the evaluation in float64 is far smaller than these, and no test here takes it away.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nearwise import distances
from nearwise.backends import _torch_estimate
from nearwise.backends import torch as backend

DISTANCES = {
    "lp": distances.LpDistance(normalize_embeddings=False),
    "snr": distances.SNRDistance(normalize_embeddings=False),
    "dot": distances.DotProductSimilarity(normalize_embeddings=False),
    "cosine": distances.CosineSimilarity(),
}


class _WithoutAccumulation(_torch_estimate.Estimator):
    def limit(self, query, rows, last):
        features = self._exact.features
        # Minus eight features: products of no terms.
        self._exact = replace(self._exact, features=-8)
        try:
            return super().limit(query, rows, last)
        finally:
            self._exact = replace(self._exact, features=features)


class _WithoutQueryRounding(_torch_estimate.Estimator):
    def limit(self, query, rows, last):
        return super().limit(replace(query, lost=torch.zeros_like(query.lost)), rows, last)


class _WithoutReferenceRounding(_torch_estimate.Estimator):
    def limit(self, query, rows, last):
        norm, lost, drift = self.largest
        self.largest = [norm, 0.0, drift]
        try:
            return super().limit(query, rows, last)
        finally:
            self.largest = [norm, lost, drift]


def _violations(estimator_class, kind, x, y):
    """Count the pairs whose raw number is nearer than the limit that their own score gives."""
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    exact = backend._exact(x, DISTANCES[kind].formula)
    # One reference at a time, so that the maxima over all references are its own.
    found = 0
    for at in range(len(y)):
        estimator = estimator_class(exact, y)
        query = estimator.operands(x, is_query=True)
        reference = estimator.operands(y[at : at + 1], is_query=False)
        estimator.note(reference)
        limit = estimator.limit(query, x, estimator.scores(query, reference)[:, 0])
        raw = _raw(kind, x.double().numpy(), y[at].double().numpy())
        far = -1 if kind in ("dot", "cosine") else 1
        found += int((far * raw < far * limit.numpy()).sum())
    return found


def _raw(kind, x, y):
    wide = np.longdouble
    x, y = x.astype(wide), y.astype(wide)
    if kind == "lp":
        return ((x - y) ** 2).sum(axis=1)
    if kind == "snr":
        difference = x - y
        return difference.var(axis=1) / x.var(axis=1)
    products = (x * y).sum(axis=1)
    if kind == "dot":
        return products
    return products / np.sqrt((x**2).sum(axis=1) * (y**2).sum())


def _rows(seed, count, features, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((count, features)).astype(dtype)


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [1, 2, 3, 64])
def test_no_pair_is_nearer_than_the_limit_of_its_score(kind, dtype, features):
    offset = 0 if features == 1 or kind == "cosine" else 30
    x, y = _rows(0, 300, features, dtype) + dtype(offset), _rows(1, 100, features, dtype) + dtype(offset)
    if kind == "snr" and features == 1:
        pytest.skip("a row of one feature has no variance")
    assert _violations(_torch_estimate.Estimator, kind, x, y) == 0


def test_the_term_of_accumulation_is_needed():
    # Whole numbers are stored without loss; their products and sums round.
    x, y = np.rint(_rows(0, 300, 3) * 2**20), np.rint(_rows(1, 100, 3) * 2**20)
    assert _violations(_torch_estimate.Estimator, "dot", x, y) == 0
    assert _violations(_WithoutAccumulation, "dot", x, y) > 0


def test_the_terms_of_rounding_are_needed():
    # One side is rounded by nearly half a unit in the last place, the other is a power of two; the slack of a sum of
    # one product must not hide it, so the accumulation is left out as well: nothing rounds there.
    class Query(_WithoutAccumulation, _WithoutQueryRounding):
        pass

    class Reference(_WithoutAccumulation, _WithoutReferenceRounding):
        pass

    odd = 1 + 2.0**-24 * (1 + np.linspace(-0.9, 0.9, 40))[:, None]
    powers = np.array([[1.0], [-1.0], [2.0], [-0.5]])
    for x, y, mutant in ((odd, powers, Query), (powers, odd, Reference)):
        assert _violations(_WithoutAccumulation, "dot", x, y) == 0
        assert _violations(mutant, "dot", x, y) > 0
