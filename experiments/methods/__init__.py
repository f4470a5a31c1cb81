"""The methods that the paper compares, behind one small interface."""

from __future__ import annotations

from .adaptive import ADAPTIVE_2PL, ATLAS, ATLAS_NO_PRIOR
from .base import Method
from .faq import FAQ
from .ridge import MID_RANGE_RIDGE, RSL
from .sampling import MID_RANGE, STRATIFIED, UNIFORM

# The peers by name, in the order of table 1; HSPR itself is configured fold by fold.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        UNIFORM,
        STRATIFIED,
        RSL,
        FAQ,
        MID_RANGE,
        MID_RANGE_RIDGE,
        ATLAS,
        ATLAS_NO_PRIOR,
        ADAPTIVE_2PL,
    )
}
