"""A problem's file as a module, with constants overridden."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.catalog.combined_file import holds_a_solution, problem_part
from kbench.catalog.constant_folding import bound
from kbench.catalog.constant_text import fitted
from kbench.catalog.script import last_line, unimportable
from kbench.core.errors import PluginError, UsageError, did_you_mean

OVERRIDE = "__kbench_override__"
"""Name of the function that returns a constant's new value, given the file's own: not every value has a literal."""
MODULE_PREFIX = "kbench_problem_"
"""Beginning of the names of modules that are problems' files."""


def executed(path: Path, overrides: Mapping[str, Any]) -> ModuleType:
    """Run a problem's file; constants are replaced while it runs. Raises PluginError or UsageError."""
    digest = hashlib.sha256(f"{path}{sorted(overrides.items())}".encode()).hexdigest()[:12]
    name = f"{MODULE_PREFIX}{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py path always has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    module.__dict__[OVERRIDE] = lambda constant, own: fitted(own, overrides[constant])
    try:
        source = importlib.util.decode_source(path.read_bytes())
        code = compile(_override(source, str(path), overrides), str(path), "exec")
        exec(code, module.__dict__)  # noqa: S102 - importing a module is executing it; the problem is trusted
    except SyntaxError as error:
        raise PluginError(f"{path}:{error.lineno}: {error.msg}") from error
    except UsageError:
        raise
    except ImportError as error:
        raise PluginError(unimportable(error, path)) from error
    except Exception as error:
        raise PluginError(f"{last_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _override(source: str, path: str, overrides: Mapping[str, Any]) -> Any:
    """Return the module's syntax tree with every top-level assignment of an overridden name replaced."""
    tree = ast.parse(source, path)
    if holds_a_solution(tree):
        tree.body = problem_part(tree, keep=overrides)
    missing = set(overrides)
    body: list[ast.stmt] = []
    for statement in tree.body:
        body.append(statement)
        for name in sorted(_assigned(statement) & set(overrides)):
            missing.discard(name)
            value = ast.parse(f"{name} = {OVERRIDE}({name!r}, {name})").body[0]
            body.append(ast.copy_location(value, statement))
    if missing:
        known = sorted({name for statement in tree.body for name in _assigned(statement)})
        name = min(missing)
        raise UsageError(f"{path} has no constant `{name}`", did_you_mean(name, known))
    tree.body = body
    return ast.fix_missing_locations(tree)


def _assigned(statement: Any) -> set[str]:
    assigns = isinstance(statement, ast.Assign) or (
        isinstance(statement, ast.AnnAssign) and statement.value is not None
    )
    return set(bound(statement)) if assigns else set()
