"""The Python of child processes: where they find kbench, and packages in their compiled form.

Where packages have no bytecode it is kept below the cache: else each process compiles torch for 4.3 s, and for 9.4 s
more what torch.compile needs (host of an H200).
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

from kbench.storage.settings import cache_dir

FOLDER = "bytecode"
SOURCE_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".py")
PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of kbench itself."""


def child_environment() -> dict[str, str]:
    """Return the environment of a child that runs no solution: the caller's, with kbench's folder in PYTHONPATH."""
    return {**os.environ, "PYTHONPATH": search_path(), **bytecode(writes=True)}


def search_path() -> str:
    """Return the PYTHONPATH of children: they find kbench whether it is installed or run from a checkout."""
    return os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))


def bytecode(*, writes: bool = False) -> dict[str, str]:
    """Return variables for a child to read bytecode, and to add some if it `writes`: no child with a solution may."""
    folder = bytecode_folder()
    if folder is None:
        return {}
    variables = {"PYTHONPYCACHEPREFIX": str(folder)}
    if writes and sys.pycache_prefix is None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        variables["PYTHONDONTWRITEBYTECODE"] = ""
    return variables


def bytecode_folder() -> Path | None:
    """Return where children find bytecode: where the user has it, or below the cache; None for beside the sources."""
    if sys.pycache_prefix is not None:
        return Path(sys.pycache_prefix)
    return cache_dir().absolute() / FOLDER if _lacks_bytecode() else None


@functools.cache
def _lacks_bytecode() -> bool:
    torch = importlib.util.find_spec("torch")
    return torch is not None and torch.cached is not None and not Path(torch.cached).exists()


@functools.lru_cache(maxsize=1024)
def kernels_of(path: Path) -> Path:
    """Return the folder that `kbench.kernels` means to a solution: its own checkout's, where it lies in one."""
    checkouts = (folder / "kbench" / "kernels" for folder in path.resolve().parents)
    return next((folder for folder in checkouts if (folder / "__init__.py").is_file()), PACKAGE / "kernels")


@functools.cache
def package_sha256(*, left_out: Path | None = None) -> str:
    """Return one hash over kbench's sources except those in `left_out`: checkouts of one version may differ."""
    found = hashlib.sha256()
    suffixes = (*SOURCE_SUFFIXES, ".json")
    for path in sorted(each for each in PACKAGE.rglob("*") if each.suffix in suffixes and each.is_file()):
        if left_out is None or not path.is_relative_to(left_out):
            place = path.relative_to(PACKAGE)
            found.update(f"{place} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
