"""Numbers with a range, as types: pydantic checks them where values come from files, settings and Python."""

import math
from typing import Annotated

from annotated_types import Interval

LARGEST = (1 << 63) - 1

NonNegative = Annotated[int, Interval(ge=0, le=LARGEST)]
Positive = Annotated[int, Interval(ge=1, le=LARGEST)]
Signed = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Rate = Annotated[float, Interval(ge=0, le=1e300)]
PositiveRatio = Annotated[float, Interval(ge=1e-300, le=1e300)]
UnitShare = Annotated[float, Interval(ge=0, le=1)]
OpenShare = Annotated[float, Interval(gt=0, lt=1)]
Seconds = Annotated[float, Interval(gt=0, lt=math.inf)]
