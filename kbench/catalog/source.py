"""Facts about a problem or solution file, read from its syntax tree: it is never imported."""

import ast
import codecs
import errno
import io
import math
import os
import re
import reprlib
import stat
import threading
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.catalog.constant_folding import bound, fold
from kbench.core.errors import PluginError, did_you_mean

DEVICES = ("cuda", "cpu")
"""Devices that a plugin runs on if it has no `DEVICES`."""

MAX_SOURCE_BYTES = 4 * 2**20
ENCODINGS = frozenset({"utf-8", "utf-8-sig", "ascii", "iso8859-1"})
"""Accepted encodings of a file: some of Python's decoders take hours, and some do not produce text."""
MAX_SUMMARY = 200
WEIGHT = "weight"
"""Name in a case that says how often it occurs, in a file without such a constant."""
ENCODING_HINT = "save it as UTF-8, or name its encoding in the first line: `# -*- coding: latin-1 -*-`"
_NATIVE = "`kbench new solution PROBLEM NAME` writes a file whose `ModelNew` can load this one"
OTHER_LANGUAGES = {
    **dict.fromkeys((".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".hip"), _NATIVE),
    **dict.fromkeys((".yml", ".yaml", ".toml", ".json", ".md"), "give the Python file beside it"),
}
"""By ending of a file that Python cannot parse, a hint."""
_LETTER, _GAP = r"[^\0-/:-@[-^`{-\x7f]", r"(?:[ \t\f]|\\(?:\r\n?|\n))*"
DOTTED = re.compile(rf"(?<!{_LETTER}){_LETTER}+(?:{_GAP}\.{_GAP}{_LETTER}+)+")
"""A dotted name. A letter is any character that ASCII does not use otherwise, so that the pattern compiles fast."""
MAX_DOTS = 250
"""In one name: Python's parser copies what it has of an imported one at each dot, and would fill the memory."""
COMPUTE: list[Callable[[Path], Any]] = []
"""The function that runs a file in a sandboxed child and returns its `CASES`; none in a process that runs no file."""
_parsing = threading.Lock()
"""CPython 3.11 counts the depth of a tree that it builds in one place for all threads, and where the garbage collector
lets another one in, it raises SystemError: python/cpython#106905."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One parsed plugin file."""

    path: Path
    tree: ast.Module

    @property
    def names(self) -> frozenset[str]:
        """Every name that the module binds at its top level: classes, functions, imports, assignments."""
        return frozenset(name for statement in top_level(self.tree.body) for name in bound(statement))

    @property
    def classes(self) -> list[str]:
        """Classes at the top level, in the order of the file."""
        return [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @property
    def binds_unseen(self) -> bool:
        """True if `names` may lack some: the file has `from MODULE import *`, or calls `exec` or `globals`."""
        found = (getattr(node, "name", getattr(getattr(node, "func", None), "id", "")) for node in ast.walk(self.tree))
        return any(name in {"*", "exec", "globals"} for name in found)

    @property
    def modules(self) -> list[str]:
        """Classes whose first base is called `Module`, in the order of the file."""
        classes = [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.bases]
        bases = [(node.name, node.bases[0]) for node in classes]
        return [name for name, base in bases if "Module" in {getattr(base, "id", ""), getattr(base, "attr", "")}]

    @property
    def functions(self) -> list[str]:
        """Functions at the top level that take arguments and have no underscore, in the order of the file."""
        found = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        return [node.name for node in found if node.args.args and not node.name.startswith("_")]

    @property
    def summary(self) -> str:
        """First line of the module's docstring, else of the class `Model` or `ModelNew`, else empty."""
        documented: list[ast.Module | ast.ClassDef] = [self.tree]
        documented += [
            node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name in {"Model", "ModelNew"}
        ]
        for node in documented:
            text = (ast.get_docstring(node) or "").strip()
            if text:
                return text[:MAX_SUMMARY].splitlines()[0].strip()
        return ""

    def constants(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the constants that follow from literals, arithmetic and `overrides`, in the order of the file."""
        folded = fold(top_level(self.tree.body), overrides)
        left_out = {"CASES", "DEVICES", "TOLERANCE"}
        return {name: value for name, value in folded.items() if name not in left_out and not name.startswith("_")}

    @property
    def devices(self) -> tuple[str, ...]:
        """`DEVICES` of the file, checked, or both devices."""
        found = self._folded().get("DEVICES", DEVICES)
        given = (found,) if isinstance(found, str) else found
        # Compared one by one: what is nested in a list need not have a hash.
        if not isinstance(given, tuple | list) or not given or not all(device in DEVICES for device in given):
            raise PluginError(
                f"{self.path}, line {min(self._mentions('DEVICES'))}: DEVICES is {reprlib.repr(found)}",
                'write `DEVICES = ("cuda",)`, `("cpu",)` or `("cuda", "cpu")`',
            )
        return tuple(given)

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        """`CASES` of the file: overrides of module constants by case name; one empty `default` without it."""
        own = () if WEIGHT in self.names else (WEIGHT,)
        return {
            name: {constant: value for constant, value in overrides.items() if constant not in own}
            for name, overrides in self._table().items()
        }

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each case that has one, unless the file has a constant of that name."""
        own = () if WEIGHT in self.names else (WEIGHT,)
        table = self._table()
        return {case: float(values[name]) for case, values in table.items() for name in own if name in values}

    @property
    def cases_are_literal(self) -> bool:
        """True if the text alone gives `CASES`: one assignment from literals, and no change after it."""
        return "CASES" not in self.names or ("CASES" in self._folded() and len(self._mentions("CASES")) == 1)

    def _table(self) -> Mapping[str, Mapping[str, Any]]:
        if "CASES" not in self.names:
            return {"default": {}}
        line = min(self._mentions("CASES"), default=1)
        if not self.cases_are_literal and not COMPUTE:
            raise PluginError(
                f"{self.path}, line {line}: CASES is no literal, and this process runs no file",
                "write the values out, or use the command line",
            )
        table = self._folded()["CASES"] if self.cases_are_literal else COMPUTE[0](self.path)
        self._check_cases(table, f"{self.path}, line {line}: CASES")
        checked: Mapping[str, Mapping[str, Any]] = table
        return checked

    def _mentions(self, name: str) -> list[int]:
        """Return the lines at the top level that have a name: those of functions change nothing before they run."""
        skipped = ast.FunctionDef | ast.ClassDef
        statements = [one for one in self.tree.body if not isinstance(one, skipped) and not is_main_guard(one)]
        nodes = [node for statement in statements for node in ast.walk(statement)]
        named = [node.lineno for node in nodes if isinstance(node, ast.Name) and node.id == name]
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        return named + [node.lineno for node in imports if any(alias.name == name for alias in node.names)]

    def _folded(self) -> dict[str, Any]:
        return fold(top_level(self.tree.body))

    def _check_cases(self, table: object, where: str) -> None:
        if not isinstance(table, dict) or not table:
            what = "has no case" if table == {} else f"is a {type(table).__name__}, not a dictionary of cases"
            raise PluginError(f"{where} {what}", 'write `CASES = {"default": {}, "small": {"batch_size": 4}}`')
        for case, overrides in table.items():
            if not isinstance(case, str) or not case or not isinstance(overrides, dict):
                what = f"{reprlib.repr(case)}: {reprlib.repr(overrides)} maps no name to a dictionary of constants"
                raise PluginError(f"{where}: {what}", 'write for example `"small": {"batch_size": 4}`')
            for name, value in overrides.items():
                if name == WEIGHT and name not in self.names:
                    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                        what = f"the weight of case `{case}` is {reprlib.repr(value)}, not a positive number"
                        raise PluginError(f"{where}: {what}", 'write for example `"weight": 3`')
                elif name not in self.names:
                    shown = name if isinstance(name, str) else reprlib.repr(name)
                    raise PluginError(
                        f"{where}: case `{case}` sets `{shown}`, which the file does not define",
                        did_you_mean(shown, sorted(self.names)),
                    )


def parse(path: Path) -> Source:
    """Read and parse a plugin file. Raises PluginError, with the line where its syntax is wrong."""
    try:
        text = _text(path)
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate's invalid escapes are not reported here
            tree = ast.parse(text, filename=str(path))
    except OSError as error:
        raise PluginError(f"{path} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        if path.suffix in OTHER_LANGUAGES:
            raise PluginError(f"{path} is not Python source", OTHER_LANGUAGES[path.suffix]) from error
        hint = ENCODING_HINT if "encoding" in str(error.msg) else "Python cannot parse this file; correct it first"
        raise PluginError(f"{path}{line}: {error.msg}", hint) from error
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"{path} is not Python source: {str(error) or 'it nests too deeply'}"
        raise PluginError(message, ENCODING_HINT if isinstance(error, UnicodeError) else None) from error
    return Source(path=path, tree=tree)


def _text(path: Path) -> str:
    """Parse a plugin file that is safe for Python's parser. Raises PluginError and others."""
    content = read_head(path)
    if len(content) > MAX_SOURCE_BYTES:
        raise PluginError(f"{path} is larger than {MAX_SOURCE_BYTES >> 20} MiB, too large for a source file")
    encoding = codecs.lookup(tokenize.detect_encoding(io.BytesIO(content).readline)[0]).name
    if encoding not in ENCODINGS:
        raise PluginError(f"{path} is encoded as {encoding}, which kbench does not read", "save it as UTF-8")
    text = content.decode(encoding)
    for name in DOTTED.finditer(text):
        if name.group().count(".") > MAX_DOTS:
            line = text.count("\n", 0, name.start()) + 1
            raise PluginError(f"{path}, line {line}: a name has more than {MAX_DOTS} dots", "shorten it")
    return text


def top_level(
    body: Sequence[ast.stmt], within: tuple[type[ast.stmt], ...] = (ast.If, ast.Try, ast.With)
) -> list[ast.stmt]:
    """Statements that run when the module is imported, those `within` others included."""
    found = []
    left = list(reversed(body))
    while left:
        statement = left.pop()
        found.append(statement)
        if isinstance(statement, within) and not is_main_guard(statement):
            parts = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
            parts += [handler.body for handler in getattr(statement, "handlers", [])]
            left += reversed([inner for part in parts for inner in part])
    return found


def is_main_guard(statement: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__"`: nobody who imports the file runs what is in it."""
    match statement:
        case ast.If(
            test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value=v)])
        ):
            return v == "__main__" and not statement.orelse
    return False


def read_head(path: Path) -> bytes:
    """Return a regular file, or MAX_SOURCE_BYTES of it and one more; never waits. Raises OSError for pipes, devices."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:
        raise OSError(errno.EINVAL, "not a file's name") from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        parts = []
        left = MAX_SOURCE_BYTES + 1
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)
