"""Principal axes: one basis, fitted once and applied to every set of embeddings that are compared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PrincipalBasis:
    """Standardises columns and projects rows to the axes of greatest variance.

    Attributes
    ----------
    mean, scale : Tensor
        Of each column, shape (D,), float64. A constant column has scale 1.
    axes : Tensor
        Shape (D, components), float64, orthonormal columns by falling variance. The entry of greatest magnitude of each
        is positive, which makes the basis repeatable.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [3.0, 3.0], [-3.0, -3.0]])
    >>> PrincipalBasis.fit(rows, 1).project(torch.tensor([[2.0, -2.0]]))
    tensor([[0.]])
    """

    mean: Tensor
    scale: Tensor
    axes: Tensor

    @classmethod
    def fit(cls, embeddings: Tensor, components: int) -> PrincipalBasis:
        """Fit the basis of some embeddings.

        Parameters
        ----------
        embeddings : Tensor
            Shape (N, D), finite.
        components : int
            How many axes to keep, at most min(N, D).

        Raises
        ------
        ValueError
            If there are fewer rows or columns than components, or a value is not finite.
        """
        rows, columns = embeddings.shape
        if components > min(rows, columns):
            raise ValueError(
                f"pca must be at most min(rows, columns) of the embeddings, got {components} for {rows} × {columns}"
            )
        values = embeddings.detach().double()
        if not values.isfinite().all():
            raise ValueError("pca needs finite embeddings, got NaN or infinity")
        mean = values.mean(dim=0)
        deviation = values.std(dim=0) if rows > 1 else torch.zeros_like(mean)
        scale = torch.where(deviation > 0, deviation, 1.0)
        standard = (values - mean) / scale
        if rows < columns:
            axes = torch.linalg.svd(standard, full_matrices=False).Vh[:components].T
        else:
            axes = torch.linalg.eigh(standard.T @ standard).eigenvectors.flip(1)[:, :components]
        largest = axes.gather(0, axes.abs().argmax(dim=0, keepdim=True))
        return cls(mean, scale, axes * torch.where(largest < 0, -1.0, 1.0))

    def project(self, embeddings: Tensor) -> Tensor:
        """Return the coordinates (N, components) of embeddings (N, D): float64 for float64, float32 for the rest."""
        values = (embeddings.detach().double() - self.mean) / self.scale @ self.axes
        return values if embeddings.dtype == torch.float64 else values.float()
