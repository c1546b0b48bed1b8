"""Gradients through the built-in distances."""

from __future__ import annotations

import numpy as np
import pytest

from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance

torch = pytest.importorskip("torch")

INF = float("inf")
ALL = [
    *(
        LpDistance(normalize_embeddings=n, p=p, power=power)
        for n in (False, True)
        for p in (1, 2, 3, INF)
        for power in (1, 2)
    ),
    LpDistance(power=0.5),
    DotProductSimilarity(),
    DotProductSimilarity(normalize_embeddings=True, p=1, power=2),
    CosineSimilarity(),
    SNRDistance(),
    SNRDistance(normalize_embeddings=False, power=2),
]


def embeddings(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.rule("D-20")
@pytest.mark.parametrize("distance", ALL, ids=repr)
def test_gradients_are_those_of_the_formula(distance):
    x, y = embeddings(3, 5).requires_grad_(), embeddings(4, 5, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(distance, (x, y))
    assert torch.autograd.gradcheck(distance.pairwise, (x, y[:3]))


@pytest.mark.rule("D-20")
@pytest.mark.parametrize("distance", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_graph_changes_no_value(distance, dtype):
    x, y = embeddings(3, 40, dtype=dtype), embeddings(30, 40, dtype=dtype, seed=1)
    plain = distance(x, y)
    graph = distance(x.clone().requires_grad_(), y)
    assert not plain.requires_grad
    assert graph.requires_grad
    assert torch.equal(plain, graph)
    assert graph.dtype == plain.dtype
    assert torch.equal(distance.pairwise(x, y[:3]), distance.pairwise(x, y[:3].clone().requires_grad_()))


@pytest.mark.rule("D-20")
def test_gradients_reach_both_sides_in_their_own_dtype():
    x, y = (
        embeddings(3, 5, dtype=torch.float16).requires_grad_(),
        embeddings(4, 5, dtype=torch.float16).requires_grad_(),
    )
    LpDistance()(x, y).sum().backward()
    assert x.grad.dtype == y.grad.dtype == torch.float16
    assert x.grad.abs().sum() > 0
    assert y.grad.abs().sum() > 0


@pytest.mark.rule("D-20")
@pytest.mark.parametrize("distance", [distance for distance in ALL if not isinstance(distance, SNRDistance)], ids=repr)
def test_the_gradient_at_distance_zero_is_no_nan(distance):
    """https://github.com/pytorch/pytorch/issues/37154: NaN gradients at distance 0."""
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    distance(x).sum().backward()
    assert torch.isfinite(x.grad).all()
    x.grad = None
    distance.pairwise(x, x.detach().clone()).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.rule("D-20")
def test_the_subgradient_at_distance_zero_is_zero():
    for distance in (LpDistance(normalize_embeddings=False), LpDistance(normalize_embeddings=False, power=0.5)):
        x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        distance.pairwise(x, torch.tensor([[1.0, 2.0]])).backward()
        assert torch.equal(x.grad, torch.zeros(1, 2))


@pytest.mark.rule("D-20")
def test_no_graph_is_recorded_under_no_grad_or_without_need():
    x = embeddings(3, 5).requires_grad_()
    with torch.no_grad():
        assert not LpDistance()(x).requires_grad
    with torch.inference_mode():
        assert not LpDistance()(x).requires_grad
    assert not LpDistance()(x.detach()).requires_grad


@pytest.mark.rule("D-19", "D-20")
def test_many_rows_close_together_keep_their_values_and_gradients():
    """torch.cdist changes to a form that cancels when a side has more than 25 rows."""
    x = (embeddings(40, 8, dtype=torch.float32) * 0.01 + 50).requires_grad_()
    few = LpDistance(normalize_embeddings=False)(x[:5], x)
    many = LpDistance(normalize_embeddings=False)(x, x)
    assert torch.equal(many[:5], few)
    far = (embeddings(40, 8) * 0.01 + 1e9).requires_grad_()
    for rows in (x, far):
        values = LpDistance(normalize_embeddings=False)(rows, rows)
        (gradient,) = torch.autograd.grad(values[0, 1], rows)
        want = ((rows[0].double() - rows[1].double()) / values[0, 1].double()).detach()
        np.testing.assert_allclose(gradient[0].double().numpy(), want.numpy(), rtol=1e-5)


@pytest.mark.rule("D-20")
def test_autocast_leaves_values_and_gradients_alone():
    x, y = embeddings(3, 5, dtype=torch.float32).requires_grad_(), embeddings(4, 5, dtype=torch.float32, seed=1)
    for distance in (LpDistance(), DotProductSimilarity(), SNRDistance()):
        (want,) = torch.autograd.grad(distance(x, y).sum(), x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = distance(x, y)
        (got,) = torch.autograd.grad(values.sum(), x)
        assert values.dtype == torch.float32
        assert torch.equal(got, want)
