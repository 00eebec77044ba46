"""A problem's file as a module, with constants overridden.

A file may hold a problem and a solution: the judge runs nothing of a solution.
"""

import ast
import hashlib
import importlib.util
import sys
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.catalog.constant_folding import bound
from kbench.catalog.constant_text import fitted
from kbench.catalog.script import last_line, unimportable
from kbench.catalog.source import is_main_guard, top_level
from kbench.core.errors import PluginError, UsageError, did_you_mean

MODULE_PREFIX = "kbench_problem_"
"""Beginning of the names of modules that are problems' files."""
PROBLEM_NAMES = ("Model", "get_inputs", "get_init_inputs", "CASES", "DEVICES", "TOLERANCE", "cost")
SOLUTION_NAME = "ModelNew"
_IMPORTS = (ast.Import, ast.ImportFrom)
_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def executed(path: Path, overrides: Mapping[str, Any]) -> ModuleType:
    """Run a problem's file; constants are replaced while it runs. Raises PluginError or UsageError."""
    digest = hashlib.sha256(f"{path}{sorted(overrides.items())}".encode()).hexdigest()[:12]
    name = f"{MODULE_PREFIX}{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py path always has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        source = importlib.util.decode_source(path.read_bytes())
        code = compile(_syntax(source, str(path), overrides), str(path), "exec")
        exec(code, module.__dict__, _Names(module, overrides))  # noqa: S102 - importing a module is executing it; the problem is trusted
    except SyntaxError as error:
        raise PluginError(f"{path}:{error.lineno}: {error.msg}") from error
    except UsageError:
        raise
    except ImportError as error:
        raise PluginError(unimportable(error, path)) from error
    except Exception as error:
        raise PluginError(f"{last_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


class _Names(UserDict[str, Any]):
    """The names of a module while its file runs: a constant gets its new value wherever the file assigns it."""

    def __init__(self, module: ModuleType, overrides: Mapping[str, Any]):
        self.data = module.__dict__
        self._overrides = overrides

    def __setitem__(self, name: str, own: Any) -> None:
        self.data[name] = fitted(own, self._overrides[name]) if name in self._overrides else own


def _syntax(source: str, path: str, overrides: Mapping[str, Any]) -> ast.Module:
    """Return a problem's syntax tree, without a solution in the same file. Raises UsageError for an unknown name."""
    tree = ast.parse(source, path)
    if holds_a_solution(tree):
        tree.body = problem_part(tree, keep=overrides)
    assigned = [one for one in top_level(tree.body) if isinstance(one, ast.Assign | ast.AnnAssign) and one.value]
    known = sorted({name for statement in assigned for name in bound(statement)})
    for name in sorted(set(overrides) - set(known)):
        raise UsageError(f"{path} has no constant `{name}`", did_you_mean(name, known))
    return tree


def holds_a_solution(tree: ast.Module) -> bool:
    """Return whether a problem's file also defines a solution."""
    return any(SOLUTION_NAME in _names(statement) for statement in tree.body)


def problem_part(tree: ast.Module, keep: Iterable[str] = ()) -> list[ast.stmt]:
    """Return the statements that bind or change the parts of a problem, and everything that they refer to."""
    imported = {name for statement in tree.body if isinstance(statement, _IMPORTS) for name in bound(statement)}
    needed, kept = {*PROBLEM_NAMES, *keep}, set[int]()
    while fresh := [
        number
        for number, statement in enumerate(tree.body)
        if number not in kept
        and not is_main_guard(statement)
        and (_always(statement) or not needed.isdisjoint(_touched(statement, imported)))
    ]:
        kept.update(fresh)
        used = (node for number in fresh for node in ast.walk(tree.body[number]))
        needed |= {node.id for node in used if isinstance(node, ast.Name)}
    return [tree.body[number] for number in sorted(kept)]


def _always(statement: ast.stmt) -> bool:
    """Return whether a statement may bind a name or changes how the others are read."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def _touched(statement: ast.stmt, imported: set[str]) -> set[str]:
    """Return the names that a statement binds or may change: `table["a"] = 1`, `cases.append(...)`."""
    return _names(statement) | {
        name for one in top_level([statement], _COMPOUND) for name in _changed(one) if name not in imported
    }


def _names(statement: ast.stmt) -> set[str]:
    return {name for one in top_level([statement], _COMPOUND) for name in bound(one)}


def _changed(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign():
            targets = statement.targets
        case ast.AugAssign() | ast.AnnAssign() | ast.For():
            targets = [statement.target]
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):
            targets = [function]
    yield from (root for target in targets if (root := _root(target)) is not None)


def _root(target: ast.expr) -> str | None:
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None
