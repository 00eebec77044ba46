"""What a problem or solution file says about itself, read from its syntax tree: it is never imported."""

import ast
import difflib
import operator
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.core.errors import PluginError

DEVICES = ("cuda", "cpu")
"""Where a plugin runs unless its own `DEVICES` says otherwise."""

MAX_SOURCE_BYTES = 4 * 2**20
MAX_CONSTANT_BITS = 4096
"""Powers and shifts beyond this are not folded: a file must not make its reader compute for minutes."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One parsed plugin file."""

    path: Path
    tree: ast.Module

    @property
    def names(self) -> frozenset[str]:
        """Every name that the module binds at its top level: classes, functions, imports, assignments."""
        return frozenset(name for statement in _top_level(self.tree.body) for name in _bound(statement))

    @property
    def summary(self) -> str:
        """First line of the module's docstring, else of the class `Model` or `ModelNew`, else empty."""
        documented: list[ast.Module | ast.ClassDef] = [self.tree]
        documented += [
            node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name in {"Model", "ModelNew"}
        ]
        for node in documented:
            text = ast.get_docstring(node)
            if text:
                return text.strip().splitlines()[0].strip()
        return ""

    @property
    def constants(self) -> dict[str, Any]:
        """Module constants whose values follow from literals and arithmetic, in the order of the file."""
        return {name: value for name, (value, _) in _fold(self.tree.body).items() if _overridable(name)}

    @property
    def devices(self) -> tuple[str, ...]:
        """`DEVICES` of the file, checked, or both devices."""
        found = _fold(self.tree.body).get("DEVICES")
        if found is None:
            return DEVICES
        value, line = found
        given = (value,) if isinstance(value, str) else value
        if not isinstance(given, tuple | list) or not given or not set(given) <= set(DEVICES):
            raise PluginError(
                f"{self.path}, line {line}: DEVICES is {value!r}",
                'write `DEVICES = ("cuda",)`, `("cpu",)` or `("cuda", "cpu")`',
            )
        return tuple(given)

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        """`CASES` of the file: overrides of module constants by case name; one empty `default` without it."""
        statement = _assignment(self.tree.body, "CASES")
        if statement is None:
            return {"default": {}}
        found = _fold(self.tree.body).get("CASES")
        if found is None:
            raise PluginError(
                f"{self.path}, line {statement.lineno}: CASES is not a literal",
                "write the values out: kbench reads CASES without running the file",
            )
        self._check_cases(*found)
        return {name: dict(overrides) for name, overrides in found[0].items()}

    def _check_cases(self, table: object, line: int) -> None:
        where = f"{self.path}, line {line}: CASES"
        if not isinstance(table, dict) or not table:
            raise PluginError(f"{where} is not a dictionary of cases", 'write `CASES = {"default": {}}`')
        for case, overrides in table.items():
            if not isinstance(case, str) or not case or not isinstance(overrides, dict):
                raise PluginError(f"{where}: {case!r} does not map constants to values")
            for name in overrides:
                if name not in self.names:
                    raise PluginError(
                        f"{where}: case `{case}` sets `{name}`, which the file does not define",
                        did_you_mean(str(name), sorted(self.names)),
                    )


def parse(path: Path) -> Source:
    """Read and parse a plugin file.

    Raises:
        PluginError: it cannot be read, or its syntax is wrong; the message has the line.
    """
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise PluginError(f"{path} is larger than {MAX_SOURCE_BYTES >> 20} MiB, too large for a source file")
        with tokenize.open(path) as file:
            text = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate's odd escapes are not the reader's concern
            tree = ast.parse(text, filename=str(path))
    except OSError as error:
        raise PluginError(f"{path} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise PluginError(f"{path}{line}: {error.msg}", "Python cannot parse this file; correct it first") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise PluginError(f"{path} is not Python source: {error or type(error).__name__}") from error
    return Source(path=path, tree=tree)


def did_you_mean(name: str, known: Sequence[str], *, listing: str | None = None) -> str | None:
    """Word a hint that names the nearest of `known`, or that tells how to list them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean `{near[0]}`?"
    if listing is not None:
        return listing
    return "known: " + ", ".join(known[:12]) if known else None


def _overridable(name: str) -> bool:
    return not name.startswith("_") and name not in {"CASES", "DEVICES", "TOLERANCE"}


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported, those inside `if`, `try` and `with` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _top_level(statement.body + statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _top_level(statement.body + statement.orelse + statement.finalbody)
            for handler in statement.handlers:
                yield from _top_level(handler.body)
        elif isinstance(statement, ast.With):
            yield from _top_level(statement.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _assignment(body: Sequence[ast.stmt], name: str) -> ast.stmt | None:
    return next((s for s in _top_level(body) if isinstance(s, ast.Assign | ast.AnnAssign) and name in _bound(s)), None)


def _fold(body: Sequence[ast.stmt]) -> dict[str, tuple[Any, int]]:
    """Values and line numbers of the top-level assignments that can be computed without running the file."""
    known: dict[str, tuple[Any, int]] = {}
    for statement in _top_level(body):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        values = {name: value for name, (value, _) in known.items()}
        try:
            value = _evaluate(statement.value, values)
            assigned = [pair for target in targets for pair in _unpack(target, value)]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError):
            for name in _bound(statement):
                known.pop(name, None)
            continue
        known.update({name: (value, statement.lineno) for name, value in assigned})
    return known


def _unpack(target: ast.expr, value: Any) -> list[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple | list):
        pairs = zip(target.elts, value, strict=True)
        return [pair for element, item in pairs for pair in _unpack(element, item)]
    raise ValueError("not a plain name")


def _evaluate(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Value of an expression of literals, known names and arithmetic; ValueError for anything else."""
    value: Any
    match node:
        case ast.Constant():
            value = node.value
        case ast.Name(id=name) if name in known:
            value = known[name]
        case ast.Tuple():
            value = tuple(_evaluate(element, known) for element in node.elts)
        case ast.List():
            value = [_evaluate(element, known) for element in node.elts]
        case ast.Dict() if None not in node.keys:
            keys = [_evaluate(key, known) for key in node.keys if key is not None]
            value = dict(zip(keys, (_evaluate(item, known) for item in node.values), strict=True))
        case ast.UnaryOp(op=ast.USub()):
            value = -_evaluate(node.operand, known)
        case ast.BinOp():
            value = _binary(node.op, _evaluate(node.left, known), _evaluate(node.right, known))
        case _:
            raise ValueError(f"{type(node).__name__} is not a constant")
    return value


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("arithmetic on numbers only")
    if isinstance(op, ast.Pow | ast.LShift):
        growth = right * max(abs(int(left)).bit_length(), 1) if isinstance(op, ast.Pow) else right
        if not 0 <= growth <= MAX_CONSTANT_BITS:
            raise ValueError("too large to fold")
        return left**right if isinstance(op, ast.Pow) else int(left) << int(right)
    if type(op) not in _BINARY:
        raise ValueError(f"{type(op).__name__} is not folded")
    return _BINARY[type(op)](left, right)
