"""Results of units as JSON: for journals."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbench.core.errors import ResultsError
from kbench.storage.json_values import plain
from kbench.units.unit import UnitResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def result_to_json(result: UnitResult) -> dict[str, Any]:
    """Return a result as JSON values, which `result_from_json` reads back."""
    told: dict[str, Any] = plain(result)
    return told


def result_from_json(told: Mapping[str, Any]) -> UnitResult:
    """Read what `result_to_json` wrote. Raises ResultsError."""
    try:
        return _adapter().validate_python(told)
    except ValueError as error:
        raise ResultsError(f"this is not a result of a unit: {error}") from error


@functools.cache
def _adapter() -> "TypeAdapter[UnitResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(UnitResult)
