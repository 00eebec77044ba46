"""Values of constants as they are typed: `--set NAME=VALUE`, `--grid NAME=V1,V2`, and names of cases made of them.

A value is a Python literal, a word without quotes, or a dtype. A dtype is its name without `torch.`, wherever it is
written: the file's own value says whether the name or the dtype itself is meant (`fitted`).
"""

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.core.errors import UsageError

_ASSIGNED = re.compile(r"(?:(?P<case>[^=]*),)?(?P<constants>\w+=.*)", re.DOTALL)
"""`small,M=1024`: constants, behind the case that they change."""
_BROKEN = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)


def value_of(node: ast.expr) -> Any:
    """Return the value of a literal, a word or a dtype. Raises ValueError for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name
        case ast.Tuple(elts=elements):
            return tuple([value_of(element) for element in elements])
    return ast.literal_eval(node)


def values_of(text: str) -> list[Any]:
    """Return the values in a text with commas between them. Raises ValueError or SyntaxError, among others."""
    listed = ast.parse(f"[{text}]", mode="eval").body
    if not isinstance(listed, ast.List) or not listed.elts:
        raise ValueError("no value")
    return [value_of(element) for element in listed.elts]


def text_of(value: Any) -> str:
    """Write a value as it is typed, without blanks where that is possible."""
    if isinstance(value, str) and value.isidentifier() and value not in {"True", "False", "None"}:
        return value
    if isinstance(value, tuple | list):
        items = ",".join(map(text_of, value))
        return f"({items}{',' if len(value) == 1 else ''})"
    return repr(value)


def grid_cases(cases: Sequence[str], grid: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Return the names of all cases of a grid, each for every one of `cases`: `M=1024,N=64`, `small,M=1024,N=64`."""
    pairs = [[f"{name}={text_of(value)}" for value in values] for name, values in grid.items()]
    points = [",".join(point) for point in itertools.product(*pairs)]
    return tuple(dict.fromkeys(f"{case},{point}" if case else point for case in cases or ("",) for point in points))


def case_of_constants(name: str) -> tuple[str, dict[str, Any]] | None:
    """Read the name of a case that is made of constants: the case that they change, if any, and their values."""
    found = _ASSIGNED.fullmatch(name)
    if found is None:
        return None
    try:
        call = ast.parse(f"_({found['constants']})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        pairs = {keyword.arg: value_of(keyword.value) for keyword in call.keywords}
    except _BROKEN:
        return None
    if None in pairs:
        return None
    return found["case"] or "", {str(name): value for name, value in pairs.items()}


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """Read the pairs of `--set NAME=VALUE`. Raises UsageError."""
    return {name: values[0] if len(values) == 1 else tuple(values) for name, values in _pairs("--set", "=4", pairs)}


def parse_grid(pairs: Sequence[str], overrides: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Read the pairs of `--grid NAME=V1,V2`. Raises UsageError, also for a constant that is in `overrides`."""
    grid: dict[str, list[Any]] = {}
    for name, values in _pairs("--grid", "=256,1024", pairs):
        if name in overrides or name in grid:
            other = "--set" if name in overrides else "--grid"
            raise UsageError(f"`--grid {name}` and `{other} {name}` contradict each other", "leave out one of them")
        grid[name] = values
    return grid


def _pairs(flag: str, example: str, pairs: Sequence[str]) -> list[tuple[str, list[Any]]]:
    found = []
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not name.isidentifier():
            raise UsageError(f"`{flag} {pair}` is not NAME=VALUE", f"write for example `{flag} batch_size{example}`")
        try:
            found.append((name, values_of(text)))
        except _BROKEN:
            hint = f"write numbers, words or Python literals: `{flag} {name}{example}`; other text needs its own quotes"
            raise UsageError(f"`{flag} {pair}`: {text!r} is no value", hint) from None
    return found


def require_kind(name: str, own: Any, given: Any) -> None:
    """Raise UsageError where a constant is a number and gets text, or the other way round."""
    number, text = isinstance(own, int | float), isinstance(given, str)
    if number and text:
        raise UsageError(f"`{name}` is {own!r}, a number, and `{given}` is text", f"write `{name}=` and a number")
    if isinstance(own, str) and not text and given is not None:
        raise UsageError(f"`{name}` is {own!r}, text, and {given!r} is not", f"""quote it: `"{name}='{given}'"`""")


def fitted(own: Any, given: Any) -> Any:
    """Return the value that replaces a file's `own`: for a dtype the dtype of that name, or of `bf16`."""
    if not isinstance(given, str) or (type(own).__module__, type(own).__name__) != ("torch", "dtype"):
        return given
    import torch

    found = getattr(torch, re.sub(r"^(b?)fp?(?=\d)", r"\1float", given.removeprefix("torch.")), None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"torch has no dtype `{given}`", "write for example `float16` or `bfloat16`")
    return found


def named_dtypes(value: Any) -> Any:
    """Return a value with the names of dtypes in place of dtypes, also in lists, tuples and dictionaries."""
    if isinstance(value, dict):
        return {named_dtypes(key): named_dtypes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(named_dtypes(item) for item in value)
    is_dtype = (type(value).__module__, type(value).__name__) == ("torch", "dtype")
    return str(value).removeprefix("torch.") if is_dtype else value
