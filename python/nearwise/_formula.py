"""A distance by its numbers: what the backends compute with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Formula:
    """The formula of a built-in distance.

    Attributes
    ----------
    kind : {"lp", "dot", "cosine", "snr"}
        The family.
    p : float
        Which norm of the difference, for ``"lp"`` alone.
    power : float
        The exponent that every value is raised to, in float64.
    normalize : float or None
        Rows are divided by this p-norm first; None leaves them as they are.
    """

    kind: Literal["lp", "dot", "cosine", "snr"]
    p: float = 2.0
    power: float = 1.0
    normalize: float | None = None

    @property
    def is_inverted(self) -> bool:
        """Whether a larger value means nearer."""
        return self.kind in ("dot", "cosine")
