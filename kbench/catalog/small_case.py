"""The case `small` of a file that names one size only: its constants made smaller without running the file.

`catalog/shapes.py` derives shapes in a judge, to search for faults; this rule is the same wherever a file is listed.
"""

import ast
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kbench.catalog.constant_folding import bound

SMALL = "small"
MOST_ELEMENTS = 1 << 21
"""Chosen. Limits the product of all sizes of the inputs, so that no input has more elements (8 MB of fp32)."""
BOUNDS = (256, 128, 64, 32, 16)
"""Limits of a size, tried from the largest. Below 16, pooling and strides leave nothing of an image."""
BATCHES = (256, 128, 64, 32, 16, 8, 4)
"""Limits of the first size of an input, which shrinks before the others because no other size depends on a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRoles:
    """The roles of a file's constants, as far as its syntax shows them."""

    inputs: frozenset[str]
    """Constants that `get_inputs` uses."""
    model: frozenset[str] = frozenset()
    """Constants that `get_init_inputs` uses."""
    batch: frozenset[str] = frozenset()
    """Constants that are first sizes of inputs."""
    literals: int = 1
    """Product of the literal sizes in `get_inputs`."""


def small_constants(constants: Mapping[str, Any], roles: SizeRoles) -> dict[str, Any] | None:
    """Return the changed constants of a file; empty if it is small already, None if no size is known.

    Sizes are halved, so that equal ones stay equal, and powers of two (groups, channels) still divide one another.
    """
    if not any(_sizes(value) for name, value in constants.items() if name in roles.inputs):
        return None
    used = {name: value for name, value in constants.items() if name in roles.inputs | roles.model}
    small: dict[str, Any] = {}
    for most, batch in itertools.product(BOUNDS, BATCHES):
        small = {name: _bounded(v, min(most, batch) if name in roles.batch else most) for name, v in used.items()}
        sizes = [size for name in used if name in roles.inputs for size in _sizes(small[name])]
        if math.prod(sizes) * roles.literals <= MOST_ELEMENTS:
            break
    return {name: value for name, value in small.items() if value != constants[name]}


def _bounded(value: Any, most: int) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_bounded(item, most) for item in value)
    if type(value) is not int:
        return value
    while value > most:
        value //= 2
    return value


def _sizes(value: Any) -> list[int]:
    items = value if isinstance(value, list | tuple) else [value]
    return [n for n in items if type(n) is int and n > 1]


def size_roles(tree: ast.Module) -> SizeRoles:
    """Return the roles of a problem's constants from its syntax tree; constants computed from others have none."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    defined = {name for node in tree.body for name in bound(node)}
    plain = {name for node in assigned if defined.isdisjoint(_read(node)) for name in bound(node)}
    makers = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"]
    calls = [call for maker in makers for call in ast.walk(maker) if isinstance(call, ast.Call) and call.args]
    firsts = {name for call in calls for name in _first(call.args[0])}
    numbers = [n.value for maker in makers for n in ast.walk(maker) if isinstance(n, ast.Constant)]
    return SizeRoles(
        inputs=_reached(tree, "get_inputs") & plain,
        model=_reached(tree, "get_init_inputs") & plain,
        batch=frozenset(firsts & plain),
        literals=math.prod(_sizes(numbers)),
    )


def _first(argument: ast.expr) -> Iterator[str]:
    """Yield the name that is a call's first argument or the first element of it."""
    match argument:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=[ast.Name(id=name), *_]) | ast.List(elts=[ast.Name(id=name), *_]):
            yield name


def _reached(tree: ast.Module, function: str) -> frozenset[str]:
    """Return the names in the module that a function reads, also through other functions and names."""
    nodes = {name: node for node in tree.body for name in bound(node)}
    found: set[str] = set()
    left = [function]
    while left:
        name = left.pop()
        if name in nodes and name not in found:
            found.add(name)
            left += _read(nodes[name])
    return frozenset(found)


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
