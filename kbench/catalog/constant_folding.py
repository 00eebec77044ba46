"""Values of a module's constants, computed from its syntax tree; the amount of computation is limited."""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MAX_BITS = 4096
"""Larger integers are not folded, because computing or printing them could take minutes."""
MAX_NODES = 4_000
"""Largest number of nodes in the syntax tree of one value."""
MAX_NAMED = 256
"""Longest text of a value that a later one may name: so no value is much larger than the file."""
DTYPE = re.compile(r"(?:b?float|u?int|complex)\d+(?:_\w+)?|half|float|double|short|int|long|bool")
"""Names of dtypes: `torch.bfloat16` is folded to the text `bfloat16`."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def fold(statements: Sequence[ast.stmt], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of names that follow from literals and arithmetic, and from `given` values of some names."""
    found: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for statement in statements:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        assigned: list[tuple[str, Any]] = []
        try:
            if next(itertools.islice(ast.walk(statement.value), MAX_NODES, None), None) is None:
                value = _value(statement.value, named)
                assigned = [pair for target in targets for pair in _unpack(target, value)]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError):
            pass  # it is not known
        for name in bound(statement):
            found.pop(name, None)
            named.pop(name, None)
        for name, own in assigned:
            found[name] = (given or {}).get(name, own)
            if len(repr(found[name])) <= MAX_NAMED:
                named[name] = found[name]
    return found


def bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds: classes, functions, imports, assignments."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _unpack(target: ast.expr, value: Any) -> list[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple | list):
        pairs = zip(target.elts, value, strict=True)
        return [pair for element, item in pairs for pair in _unpack(element, item)]
    raise ValueError("not a plain name")


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the value of literals, known names and arithmetic; raises ValueError for anything else."""
    match node:
        case ast.Constant(value=value):
            return _small(value)
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) if DTYPE.fullmatch(name):
            return name
        case ast.Tuple(elts=elements):
            return tuple([_value(element, known) for element in elements])
        case ast.List(elts=elements):
            return [_value(element, known) for element in elements]
        case ast.Dict() if None not in node.keys:
            pairs = zip(node.keys, node.values, strict=True)
            return {_value(key, known): _value(item, known) for key, item in pairs if key is not None}
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, known)
        case ast.BinOp():
            return _binary(node.op, _value(node.left, known), _value(node.right, known))
    raise ValueError(f"{type(node).__name__} is not a constant")


def _small(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError("too large to fold")
    return value


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("arithmetic on numbers only")
    if isinstance(op, ast.Pow | ast.LShift):
        growth = right * max(abs(int(left)).bit_length(), 1) if isinstance(op, ast.Pow) else right
        if not 0 <= growth <= MAX_BITS:
            raise ValueError("too large to fold")
        return _small(left**right if isinstance(op, ast.Pow) else int(left) << int(right))
    if type(op) not in _BINARY:
        raise ValueError(f"{type(op).__name__} is not folded")
    return _small(_BINARY[type(op)](left, right))
