"""The configuration of one evaluation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from .errors import DataError

CRITERIA = ("score", "latent")
DECISIONS = ("median", "mean")
ABILITY_PRECISION = 0.25


@dataclass(frozen=True)
class Config:
    """Settings of model, acquisition and decision (section 3.6 and appendix A of the paper).

    Parameters
    ----------
    rank : int, default 4
        Residual factors r; ranks above what the source agents support are lowered to that.
    precision : float, default 4.0
        Prior precision gamma of the residual coordinates; of the ability if `rank` is 0.
    kappa : float, default 4.0
        Strength of the group rates: concentration kappa / (p (1 - p)). Smaller means that tasks of
        one group share more than their mean.
    criterion : {"score", "latent"}, default "score"
        What a query is chosen to learn: the score or the latent state.
    calibration : float, default 0.0
        Share lambda of the mean residual that is added to the decision; the paper uses 0 and 1/2.
    decision : {"median", "mean"}, default "median"
        Point estimate of the score posterior.

    Raises
    ------
    DataError
        If a setting is outside its range.
    """

    rank: int = 4
    precision: float = 4.0
    kappa: float = 4.0
    criterion: str = "score"
    calibration: float = 0.0
    decision: str = "median"

    def __post_init__(self) -> None:
        """Validate every setting and store plain Python numbers."""
        if not isinstance(self.rank, Integral) or isinstance(self.rank, bool) or self.rank < 0:
            raise DataError(f"rank must be a whole number from 0, got {self.rank!r}; use 0 to 8")
        for name in ("precision", "kappa"):
            value = getattr(self, name)
            if not _is_number(value) or value <= 0:
                raise DataError(f"{name} must be a positive number, got {value!r}; try 4.0")
        if not _is_number(self.calibration) or not 0 <= self.calibration <= 1:
            raise DataError(
                f"calibration must be a number from 0 to 1, got {self.calibration!r}; "
                "the paper uses 0 and 0.5"
            )
        for name, allowed in (("criterion", CRITERIA), ("decision", DECISIONS)):
            value = getattr(self, name)
            if value not in allowed:
                raise DataError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        object.__setattr__(self, "rank", int(self.rank))
        for name in ("precision", "kappa", "calibration"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def ability_precision(self) -> float:
        """Prior precision of the ability: 0.25 beside residual factors, else `precision`."""
        return ABILITY_PRECISION if self.rank > 0 else self.precision

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, for reports and saved files."""
        return asdict(self)


def _is_number(value: object) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False
