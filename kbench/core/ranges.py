"""Ranges of numbers, and records without further fields: pydantic checks them where values come from outside."""

import math
from typing import Annotated

from annotated_types import Interval

LARGEST = (1 << 63) - 1
NO_OTHER_FIELD = {"extra": "forbid"}
"""Configuration of records that refuse a field which they do not have."""

NonNegative = Annotated[int, Interval(ge=0, le=LARGEST)]
Positive = Annotated[int, Interval(ge=1, le=LARGEST)]
Signed = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Rate = Annotated[float, Interval(ge=0, le=1e300)]
PositiveRatio = Annotated[float, Interval(ge=1e-300, le=1e300)]
UnitShare = Annotated[float, Interval(ge=0, le=1)]
OpenShare = Annotated[float, Interval(gt=0, lt=1)]
Seconds = Annotated[float, Interval(gt=0, lt=math.inf)]
