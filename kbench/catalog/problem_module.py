"""A problem's file as a module, with constants overridden."""

import ast
import hashlib
import importlib.util
import sys
from collections import UserDict
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.catalog.combined_file import holds_a_solution, problem_part
from kbench.catalog.constant_folding import bound
from kbench.catalog.constant_text import fitted
from kbench.catalog.script import last_line, unimportable
from kbench.catalog.source import top_level
from kbench.core.errors import PluginError, UsageError, did_you_mean

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
