"""Units and their results as JSON: for journals, and for other processes and hosts."""

from collections.abc import Mapping
from typing import Any, TypeVar

from kbench.core.errors import ResultsError
from kbench.storage.json_values import plain
from kbench.units.unit import Unit, UnitResult
from kbench.wire.channel import decode_constants, encode_constants

T = TypeVar("T")
_adapters: dict[Any, Any] = {}
CONSTANTS = {"case": "overrides", "options": "overrides"}
"""Fields of a unit that hold a problem's constants, which may have any type."""


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """Return a unit as JSON values, which `unit_from_json` reads back."""
    told: dict[str, Any] = plain(unit)
    for part, name in CONSTANTS.items():
        told[part][name] = encode_constants(getattr(getattr(unit, part), name))
    told["derived"]["cases"] = [encode_constants(case) for case in unit.derived.cases]
    return told


def unit_from_json(told: Mapping[str, Any]) -> Unit:
    """Read what `unit_to_json` wrote. Raises ResultsError."""
    try:
        parts = {name: {**told[name]} for name in (*CONSTANTS, "derived")}
        for part, name in CONSTANTS.items():
            parts[part][name] = decode_constants(parts[part][name])
        parts["derived"]["cases"] = [decode_constants(case) for case in parts["derived"]["cases"]]
        return _read(Unit, {**told, **parts})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(f"this is not a unit: {error}") from error


def result_to_json(result: UnitResult) -> dict[str, Any]:
    """Return a result as JSON values, which `result_from_json` reads back."""
    told: dict[str, Any] = plain(result)
    return told


def result_from_json(told: Mapping[str, Any]) -> UnitResult:
    """Read what `result_to_json` wrote. Raises ResultsError."""
    try:
        return _read(UnitResult, told)
    except ValueError as error:
        raise ResultsError(f"this is not a result of a unit: {error}") from error


def _read(kind: type[T], told: Mapping[str, Any]) -> T:
    if kind not in _adapters:
        from pydantic import TypeAdapter

        _adapters[kind] = TypeAdapter(kind)
    read: T = _adapters[kind].validate_python(told)
    return read
