"""The problem's part of a file that holds a problem and a solution: the judge runs nothing of a solution."""

import ast
from collections.abc import Iterable, Iterator

from kbench.catalog.constant_folding import bound
from kbench.catalog.source import is_main_guard, top_level

PROBLEM_NAMES = ("Model", "get_inputs", "get_init_inputs", "CASES", "DEVICES", "TOLERANCE", "cost")
SOLUTION_NAME = "ModelNew"


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


_IMPORTS = (ast.Import, ast.ImportFrom)
_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While)


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
