"""Values of a module's constants, computed from its syntax tree; the amount of computation is limited."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_CONSTANT_BITS = 4096
"""Larger integers are not folded, because computing or printing them could take minutes."""
MAX_STATEMENT, MAX_FILE = 4_000, 200_000
"""Largest number of literals in one value, and in all values of a file. A name counts as its value at each use."""
DTYPE = re.compile(r"(?:b?float|u?int|complex)\d+(?:_\w+)?|half|float|double|short|int|long|bool")
"""Names of dtypes: `torch.bfloat16` is folded to the text `bfloat16`."""
CHARACTERS = 64
"""A string counts as one literal for each of this many characters."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The value of a name at the end of a file, and the line that assigns it."""

    value: Any
    line: int
    literals: int
    """Number of literals in the value."""


def fold(statements: Sequence[ast.stmt], given: Mapping[str, Any] | None = None) -> dict[str, Folded]:
    """Return the values of names that follow from literals and arithmetic, and from `given` values of some names."""
    given = given or {}
    known: dict[str, Folded] = {}
    left = MAX_FILE
    for statement in statements:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        folding = _Folding(known, min(left, MAX_STATEMENT))
        try:
            value = folding.evaluate(statement.value)
            assigned = [pair for target in targets for pair in _unpack(target, value)]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError):
            for name in bound(statement):
                known.pop(name, None)
        else:
            for name, item in assigned:
                literals = folding.spent if isinstance(item, tuple | list | dict) else _literals(item)
                known[name] = Folded(value=given.get(name, item), line=statement.lineno, literals=literals)
        left -= folding.spent
    return known


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


def _literals(value: Any) -> int:
    return 1 + len(value) // CHARACTERS if isinstance(value, str | bytes) else 1


class _Folding:
    """One statement's evaluation, and how many literals it has met."""

    def __init__(self, known: Mapping[str, Folded], most: int):
        self._known = known
        self._most = most
        self.spent = 0

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of literals, known names and arithmetic; raises ValueError for anything else."""
        value: Any
        self._spend(1)
        match node:
            case ast.Constant():
                value = _small(node.value)
                self._spend(_literals(value) - 1)
            case ast.Name(id=name) if name in self._known:
                value = self._known[name].value
                self._spend(self._known[name].literals - 1)
            case ast.Attribute(value=ast.Name(id="torch"), attr=name) if DTYPE.fullmatch(name):
                value = name
            case ast.Tuple():
                value = tuple([self.evaluate(element) for element in node.elts])
            case ast.List():
                value = [self.evaluate(element) for element in node.elts]
            case ast.Dict() if None not in node.keys:
                keys = [self.evaluate(key) for key in node.keys if key is not None]
                value = dict(zip(keys, [self.evaluate(item) for item in node.values], strict=True))
            case ast.UnaryOp(op=ast.USub()):
                value = -self.evaluate(node.operand)
            case ast.BinOp():
                value = _binary(node.op, self.evaluate(node.left), self.evaluate(node.right))
            case _:
                raise ValueError(f"{type(node).__name__} is not a constant")
        return value

    def _spend(self, literals: int) -> None:
        """Count literals that become part of the value. Raises ValueError above the limit."""
        if self.spent + literals > self._most:
            raise ValueError("too much to fold")
        self.spent += literals


def _small(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_CONSTANT_BITS:
        raise ValueError("too large to fold")
    return value


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("arithmetic on numbers only")
    if isinstance(op, ast.Pow | ast.LShift):
        growth = right * max(abs(int(left)).bit_length(), 1) if isinstance(op, ast.Pow) else right
        if not 0 <= growth <= MAX_CONSTANT_BITS:
            raise ValueError("too large to fold")
        return _small(left**right if isinstance(op, ast.Pow) else int(left) << int(right))
    if type(op) not in _BINARY:
        raise ValueError(f"{type(op).__name__} is not folded")
    return _small(_BINARY[type(op)](left, right))
