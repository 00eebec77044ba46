"""What a solution is made of: its file and every local file that it reads to be built, found without running it."""

import ast
import functools
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from kbench.core.errors import PluginError
from kbench.plugins.source import parse, read_head

SOURCE_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".py")
KBENCHS_OWN = (*SOURCE_SUFFIXES, ".json")
"""Suffixes of the files that kbench itself consists of."""
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)
JUST_IN_TIME = re.compile(
    r"\btriton\b|\btorch\.compile\b|\bcompile_kernel\b|\bnvrtc\b|\btilelang\b|\bhelion\b|\bcutlass\b|\bnumba\b"
)
GRAPHS = re.compile(r"\btorch\.compile\b")
EXTENSION = re.compile(r"cpp_extension|load_inline")
OWN_KERNELS = re.compile(EXTENSION.pattern + r"|__global__|@triton\.jit|@helion\.kernel|@T\.prim_func|@cute\.kernel")
COMPILES = re.compile(
    EXTENSION.pattern + r"|\bninja\b|\bnvcc\b|\bcupy\b|\bcffi\b|\bjit\b|"
    r"\bsubprocess\b|\bos\.system\b|\bsetuptools\b|" + JUST_IN_TIME.pattern
)
"""Mentions that make a build step worth its process; a program that is started may be a compiler."""
INCLUDE_FOLDERS = ("", "include")
MOST_BYTES, MOST_TOGETHER, MOST_FILES = 4 << 20, 32 << 20, 5_000
"""Of one file, of all files of a solution, and their number; what is beyond is not followed."""
MOST_NAMES = 10_000
"""Paths that are tried for what one file names."""
LONGEST_NAME = 4096
"""Characters of a path that the system would take; resolving one takes the square of its length."""
NOT_FILES = tuple(map(Path, ("/dev", "/proc", "/sys")))
"""What lies there looks like a plain file at times, and waits or never ends when read."""
PACKAGE = Path(__file__).resolve().parent.parent


class Compiler(StrEnum):
    """What a solution compiles with during its calls."""

    NONE = ""
    KERNELS = "kernels"
    """A language for kernels: Triton and its like."""
    GRAPHS = "graphs"
    """torch.compile."""


def dependencies(path: Path) -> tuple[Path, ...]:
    """Return a source and every local file that it reads to be built, sorted, absolute.

    Python: modules beside it or of `kbench.kernels`, and source files that string literals name. C++ and CUDA, files
    and strings: what is included from the own folder, its `include`, or the kernels'.
    """
    return tuple(_contents(path))


def _contents(path: Path) -> dict[Path, bytes]:
    """Return what the key covers of each file; a very long one's beginning stands for it, with size and date."""
    start = path.resolve()
    found: dict[Path, bytes] = {}
    queue = [start]
    left = MOST_TOGETHER
    while queue and left > 0 and len(found) < MOST_FILES:
        current = queue.pop()
        if current in found:
            continue
        try:
            content = read_head(current, MOST_BYTES)
            if len(content) > MOST_BYTES:
                status = current.stat()
                content += f"{status.st_size} {status.st_mtime_ns}".encode()
        except OSError:
            continue
        found[current] = content
        left -= len(content)
        queue += _references(current, _text(content), start.parent)
    return dict(sorted(found.items()))


def _text(content: bytes) -> str:
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def _references(path: Path, text: str, folder: Path) -> list[Path]:
    named = _python_references(path, folder) if path.suffix == ".py" else iter(())
    tried = [*itertools.islice(named, MOST_NAMES), *itertools.islice(_included(path, text), MOST_NAMES)]
    places = map(_place, tried)
    return [place for place in places if place is not None and not is_odd(place, folder)]


def _place(candidate: Path) -> Path | None:
    """Return where a path leads, all links followed; None where that is no plain file."""
    try:
        place = candidate.resolve()
        return place if stat.S_ISREG(place.stat().st_mode) else None
    except (OSError, ValueError, RuntimeError):
        return None  # no file's name, one that may not be looked up, or a circle of links


def is_odd(place: Path, folder: Path) -> bool:
    """Return whether something may only look like a file, to a solution that does not lie there itself."""
    return any(place.is_relative_to(odd) and not folder.is_relative_to(odd) for odd in NOT_FILES)


def _python_references(path: Path, folder: Path) -> Iterator[Path]:
    """Yield what a module names, of a solution in a folder: Python looks for whole names there, not beside it."""
    try:
        tree = parse(path).tree
    except PluginError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(path, alias.name)
                yield from _modules(folder / path.name, alias.name)
        elif isinstance(node, ast.ImportFrom):
            # `from ..x import y` starts as many folders above the file's own as there are further dots.
            start = path.parents[max(0, node.level - 1)] / path.name if node.level <= len(path.parents) else path
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if node.module else alias.name
                yield from _modules(start, name)
                if not node.level:
                    yield from _modules(folder / path.name, name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _names_a_source(node.value):
            yield from (place / node.value for place in (path.parent, kernels_of(path)))


def _names_a_source(text: str) -> bool:
    return text.endswith(SOURCE_SUFFIXES) and "\n" not in text and len(text) <= LONGEST_NAME


@functools.lru_cache(maxsize=1024)
def kernels_of(path: Path) -> Path:
    """Return the folder that `kbench.kernels` means to a solution: its own checkout's, where it lies in one."""
    checkouts = (folder / "kbench" / "kernels" for folder in path.resolve().parents)
    return next((folder for folder in checkouts if (folder / "__init__.py").is_file()), PACKAGE / "kernels")


def _modules(path: Path, name: str) -> Iterator[Path]:
    """Yield the files that `import name` may run: the module, and every package on the way to it."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        module = _module(path, ".".join(parts[:length]))
        yield module
        yield module.with_suffix("") / "__init__.py"


def _module(path: Path, name: str) -> Path:
    if f"{name}.".startswith("kbench.kernels."):
        return kernels_of(path).joinpath(*name.split(".")[2:]).with_suffix(".py")
    if name.startswith("kbench."):
        return (PACKAGE / Path(*name.split(".")[1:])).with_suffix(".py")
    return (path.parent / Path(*name.split("."))).with_suffix(".py")


def _included(path: Path, text: str) -> Iterator[Path]:
    folders = [path.parent / folder for folder in INCLUDE_FOLDERS] + [kernels_of(path) / "include"]
    names = (name.group(1) for name in INCLUDE.finditer(text))
    return (folder / name for name in names if len(name) <= LONGEST_NAME for folder in folders)


def source_sha256(path: Path, variant: str = "") -> str:
    """Return one hash over all that a solution is built from, whose `Entry.variant` is given; moves of all keep it."""
    return _digest(_contents(path), variant)


def judged_sha256(path: Path, variant: str = "") -> str:
    """Return one hash over `source_sha256` and where each file lies: of two that name each other, which it is."""
    start, kernels, contents = path.resolve(), kernels_of(path), _contents(path)
    digest = hashlib.sha256(_digest(contents, variant).encode())
    for file in contents:
        root = next((root for root in (kernels, PACKAGE) if file.is_relative_to(root)), start.parent)
        place = "" if file == start else os.path.relpath(file, root)
        digest.update(f"{place}\0{root == start.parent}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


@functools.cache
def package_sha256(*, left_out: str = "") -> str:
    """Return one hash over kbench's own sources, which tells checkouts of one version apart; `left_out`: a folder."""
    found = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in KBENCHS_OWN and path.is_file()):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != left_out:
            found.update(f"{place} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _digest(contents: dict[Path, bytes], variant: str) -> str:
    digest = hashlib.sha256(variant.encode())
    for content in contents.values():
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def compiler_of(path: Path, builtin: str | None) -> Compiler:
    """Return what a solution compiles with during its calls: it then needs a rehearsal, and may start programs."""
    if builtin is not None:
        return Compiler.NONE if builtin == "eager" else Compiler.GRAPHS
    texts = [_text(content) for content in _contents(path).values()]
    if any(GRAPHS.search(text) for text in texts):
        return Compiler.GRAPHS
    return Compiler.KERNELS if any(JUST_IN_TIME.search(text) for text in texts) else Compiler.NONE


def has_extension(path: Path, builtin: str | None) -> bool:
    """Return whether a solution has torch compile C++ or CUDA for it."""
    return builtin is None and _mentions(path, EXTENSION)


def declares_kernels(path: Path, builtin: str | None) -> bool:
    """Return whether a solution's sources hold a kernel or an extension, used or not."""
    return builtin is None and _mentions(path, OWN_KERNELS)


def compiles(path: Path, builtin: str | None) -> bool:
    """Return whether a solution may have something to build at all."""
    if builtin is not None:
        return builtin != "eager"
    return _mentions(path, COMPILES)


def _mentions(path: Path, words: re.Pattern[str]) -> bool:
    return any(words.search(_text(content)) for content in _contents(path).values())
