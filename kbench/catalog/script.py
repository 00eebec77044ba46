"""Surroundings of a problem's or a solution's file, as under `python file.py`: arguments, import paths, modules.

`sys.argv` is its path, and its folder comes first on the import path. If the file is a link, the real file's folder
comes before the link's. The folder that kbench was started in comes last.
"""

import ast
import contextlib
import importlib
import importlib.machinery
import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from kbench.catalog.source import parse
from kbench.core.errors import PluginError

PACKAGE = Path(__file__).resolve().parent.parent
IMPORT_SYSTEM = ("<frozen importlib", str(Path(importlib.__file__).parent), __file__)
"""Prefixes of the files whose frames lie between an import statement and a finder."""


class Script:
    """A problem's or a solution's file; the process works for one at a time, which has its folders on the path."""

    def __init__(self, path: Path, caller: Path, also: tuple[Path, ...] = (), root: Path | None = None):
        real = Path(os.path.realpath(path)).parent
        self.path = path
        self.folders = tuple(dict.fromkeys([real, path.absolute().parent])) if root is None else (root,)
        self.roots = tuple(dict.fromkeys([*self.folders, caller]))
        self._sources = also
        self._argv, self.path_before = sys.argv, [*sys.path]
        self._begun_ns = time.time_ns()
        self.found: dict[str, str] = {}
        """Files of the modules that were found in these folders, by name; empty for a folder without `__init__.py`."""
        self.wanted = ""
        """Module that kbench itself imports from these folders."""
        self._modules: dict[str, ModuleType] = {}
        """Modules of these folders while the process works for another file."""
        own = [str(root) for root in self.roots]
        self._open = frozenset(own) & frozenset(sys.path)
        """Folders that were on the path before: everybody finds modules there."""
        rest = [place for place in sys.path if place not in own]
        count = len(self.folders)
        self._path = [*own[:count], *rest, *own[count:]]
        installed = *rest, sys.prefix, sys.base_prefix, str(PACKAGE)
        self._installed = [Path(place).absolute() for place in installed]

    def enter(self) -> None:
        """Set `sys.argv` and the import path, and find modules by these folders from now on."""
        sys.argv = [str(self.path)]
        sys.path[:] = self._path
        sys.modules.update(self._modules)
        sys.path_hooks.insert(0, self._finder)
        sys.path_importer_cache.clear()  # the folders' finders may be another file's

    def leave(self) -> None:
        """Undo `enter`, and put away the modules of these folders: another file's may have their names."""
        self._path = [*sys.path]
        sys.argv = self._argv
        sys.path[:] = self.path_before
        sys.path_hooks.remove(self._finder)
        for name in self.found.keys() & sys.modules.keys():
            module = sys.modules[name]
            if self.has(getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")):
                self._modules[name] = sys.modules.pop(name)
        sys.path_importer_cache.clear()

    def is_stale(self) -> bool:
        """Return whether a module of these folders changed on the disk after the file was first worked for."""
        files = [Path(file) for file in self.found.values() if file]
        return any(file.exists() and file.stat().st_mtime_ns > self._begun_ns for file in files)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Work for this file inside a `with` block."""
        with returning():
            _switch(self)
            yield

    def has(self, file: str | None) -> bool:
        """Return whether a file lies below these folders, and in no installed package below them."""
        place = Path(os.path.abspath(file or "/"))  # noqa: PTH100 - links are not followed
        for root in self.roots:
            if place.is_relative_to(root):
                inner = (folder for folder in self._installed if folder != root and folder.is_relative_to(root))
                return not any(place.is_relative_to(folder) for folder in inner)
        return False

    def shows(self, folder: str) -> bool:
        """Return whether the code that imports may find modules in one of these folders."""
        return folder in self._open or self.has(_importing_file())

    def imported(self, name: str) -> ModuleType:
        """Import a module of the first of these folders by its dotted name, as code in them would."""
        self.wanted = name.partition(".")[0]
        return importlib.import_module(name)

    def _finder(self, folder: str) -> "Neighbours":
        """Return the finder of one of these folders or of one below: an entry for `sys.path_hooks`."""
        place = Path(folder)
        installed = any(place.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix))
        below = self.has(str(place / "module.py")) or any(place.is_relative_to(root) for root in self._sources)
        if place not in self.roots and (installed or not below or not place.is_dir()):
            raise ImportError(folder)  # an archive, or a script that `runpy` runs, has another finder
        return Neighbours(folder, self)


class Neighbours(importlib.machinery.FileFinder):
    """Finds modules beside a file, for the file and its neighbours alone, and as sources whatever is cached.

    Torch and installed packages import `triton` and modules of Python when they need them, and a neighbour may have
    such a name. A neighbour `triton.py` that imports `triton` itself is not what that name means, nor is a closed file.
    """

    def __init__(self, folder: str, script: Script):
        extensions = importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES
        super().__init__(folder, extensions, (SourceLoader, importlib.machinery.SOURCE_SUFFIXES))
        self._script = script

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module of this folder."""
        is_known = "." in fullname or fullname == self._script.wanted
        spec = super().find_spec(fullname, target) if is_known or self._script.shows(self.path) else None
        if spec is None or not (is_known or is_meant(spec)):
            return None
        self._script.found[fullname] = spec.origin or ""
        return spec


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source itself, whatever is cached."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module's source."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Process:
    """State of this process: the file that it works for, and files that it never imports."""

    caller: Path | None = None
    script: Script | None = None
    closed: frozenset[str] = frozenset()


def set_caller_folder(folder: Path) -> None:
    """Set the folder that kbench was started in: a judge starts there, a worker in one of its own."""
    _Process.caller = folder


def close(files: Iterable[str]) -> None:
    """Never import these files by name: a judge imports no candidate, whatever a problem tries to import."""
    _Process.closed = frozenset(map(os.path.realpath, files))


def begin(path: Path, also: tuple[Path, ...] = (), root: Path | None = None) -> Script:
    """Work for a file from now on, and import its modules anew unless it is the present one.

    Modules in the folders `also` are compiled from their sources, too, whatever is cached. A file that is a module of a
    package has the folder of that package, its `root`, on the import path in place of its own.
    """
    present = _Process.script
    if present is None or present.path != path or present.is_stale():
        leave()
        _switch(Script(path, _Process.caller or Path.cwd(), also, root))
    assert _Process.script is not None, "just begun"
    return _Process.script


@contextlib.contextmanager
def returning() -> Iterator[None]:
    """Work again for the present file, if there is one, after a `with` block."""
    before = _Process.script
    try:
        yield
    finally:
        _switch(before or _Process.script)


def leave() -> None:
    """Work for no file."""
    _switch(None)


def _switch(script: Script | None) -> None:
    if script is _Process.script:
        return
    if _Process.script is not None:
        _Process.script.leave()
    _Process.script = script
    if script is not None:
        script.enter()


def python_path() -> list[str]:
    """Return the import path of this process without the folders of the file that it works for."""
    return [*sys.path] if _Process.script is None else [*_Process.script.path_before]


def _importing_file() -> str:
    """Return the file of the code that imports; generated code has the file of its module."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to know who asks
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(IMPORT_SYSTEM):
            return str(frame.f_globals.get("__file__") or "") if file.startswith("<") else file
        frame = frame.f_back
    return ""


def is_meant(spec: ModuleSpec) -> bool:
    """Return whether a neighbour is what its name means: it is not closed, and does not import its own name."""
    closed = spec.origin is not None and os.path.realpath(spec.origin) in _Process.closed
    return not closed and not _imports_itself(spec)


def _imports_itself(spec: ModuleSpec) -> bool:
    """Return whether a module's file imports a module of its own name."""
    if spec.submodule_search_locations is not None or not str(spec.origin).endswith(".py"):
        return False
    with contextlib.suppress(PluginError):
        for node in ast.walk(parse(Path(str(spec.origin))).tree):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] == spec.name for name in named):
                return True
    return False


@contextlib.contextmanager
def no_exit(doing: str) -> Iterator[None]:
    """Have SystemExit inside a `with` block raise PluginError, which names the line."""
    try:
        yield
    except SystemExit as error:
        raise PluginError(exit_of(error, f" {doing}")) from error


def exit_of(error: SystemExit, doing: str = "") -> str:
    """Return a message about a file that ends the program: the line that does, and what to do."""
    script = _Process.script
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if script is not None and script.has(frame.filename)]
    where = f"{own[-1].filename}, line {own[-1].lineno}: `{own[-1].line}`" if own else "the file"
    instead = "put it below `if __name__ == '__main__':`, and give command-line options defaults"
    return f"{where} ends the program{doing} (SystemExit: {error.code}); {instead}"


def import_advice(error: ImportError) -> str:
    """Return what an error of an import does not say itself: where a module was looked for, and what to do."""
    if "attempted relative import" in str(error):
        return "the file is no part of a package: import the file beside it without the dot"
    top, _, below = (error.name or "").partition(".")
    script = _Process.script
    if not isinstance(error, ModuleNotFoundError) or not top or script is None:
        return ""
    found = getattr(sys.modules.get(top), "__file__", None)
    if below and found:
        return f"`{top}` is {found}"
    looked = ", ".join(str(root) for root in script.roots)
    return f"no package of that name is installed, and it is not in {looked}: `python -m pip install {top}`"


def unimportable(error: ImportError, path: Path) -> str:
    """Return a message about a file that cannot be imported: the line that imports, and what to do."""
    advice = import_advice(error)
    return f"{last_line(error, path)}: {type(error).__name__}: {error}{f'; {advice}' if advice else ''}"


def last_line(error: Exception, path: Path) -> str:
    """Return a file and its last line that an exception came through: `softmax.py, line 12`."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    return f"{path}, line {lines[-1]}" if lines else str(path)
