"""Hooks of `torch.utils.cpp_extension`, so that a loaded extension always matches its present sources.

Both `load` and `load_inline` go through two private functions of torch: one that is given the build folder, and below
it one that writes the ninja file and runs it. kbench hooks these two; naming and importing
stay torch's.

Each extension is built in a folder named by the digest of its name, flags and sources. The hashes of included files,
which the compilers list in ninja's dependency log, are stored there. Both are compared with the present files at use:
if a file has changed, the extension is built again.
"""

import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.build.manifest import content_hash
from kbench.build.observation import Observation


class BuildError(RuntimeError):
    """An extension that does not compile, or that its build step did not build."""


WITHOUT_A_DEVICE = "9.0a"
"""Target of nvcc without a GPU: Hopper with all its instructions, so that no source is refused for one."""
MODULE = "torch.utils.cpp_extension"
HOOK = "_write_ninja_file_and_build_library"
FOLDER_HOOK = "_jit_compile"
INCLUDED = "included.json"
"""File beside a library: the hashes of the files that its sources include."""
NINJA_TIMEOUT_S = 60.0
NO_PART = frozenset({"build_directory", "verbose", "sources", "keep_intermediates"})
"""Arguments of a build whose text does not change what is built; sources count by their content."""


class ExtensionBuilds:
    """The hooks, with what a process may do: `on_compile` is called before a compiler starts.

    Without `on_compile` nothing is compiled: what is not there already is an attempt to start a program, and refused.
    """

    def __init__(self, observation: Observation, on_compile: Callable[[], None] | None):
        self._observation = observation
        self._on_compile = on_compile
        self.compiled = 0
        """Extensions that were compiled so far."""

    @property
    def may_compile(self) -> bool:
        """True if extensions may be compiled in this process."""
        return self._on_compile is not None

    def install(self) -> None:
        """Put the hooks in place, or have that done when torch's module is imported, which takes 0.2 s."""
        if MODULE in sys.modules:
            self._install()
            return
        for finder in [finder for finder in sys.meta_path if isinstance(finder, _AtImport)]:
            sys.meta_path.remove(finder)
        sys.meta_path.insert(0, _AtImport(self._install))

    def _install(self) -> None:
        from torch.utils import cpp_extension

        if self._on_compile is not None:
            _offer_nvcc()
        original_folder, original_build = (_original(cpp_extension, name) for name in (FOLDER_HOOK, HOOK))
        signature = inspect.signature(original_folder)

        def compile_apart(*arguments: Any, **keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            name = bound.arguments["name"]
            root = Path(cpp_extension._get_build_directory(name, False))  # noqa: SLF001 - the cache's, whatever it asks
            folder = root / self._digest(bound.arguments, root)
            folder.mkdir(parents=True, exist_ok=True)
            bound.arguments["build_directory"] = str(folder)
            # Torch numbers a name's versions in one process; another one loads the second as its first.
            cpp_extension.JIT_EXTENSION_VERSIONER.entries.pop(name, None)
            return original_folder(*bound.args, **bound.kwargs)

        def build(name: str, *arguments: Any, build_directory: str, **keywords: Any) -> None:
            folder = Path(build_directory)
            if self._is_built(folder, name):
                return
            if self._on_compile is None:
                self._observation.need(f"loaded the extension `{name}`, which has to be compiled")
                raise BuildError(
                    f"the extension `{name}` is not the one that was built: build it when the module is imported, in "
                    "ModelNew's constructor or in the first call, from sources that do not change"
                )
            self._on_compile()
            self.compiled += 1
            with self._observation.apart():
                original_build(name, *arguments, build_directory=build_directory, **keywords)
                self._note_included(folder)

        compile_apart.original = original_folder  # type: ignore[attr-defined]
        build.original = original_build  # type: ignore[attr-defined]
        setattr(cpp_extension, FOLDER_HOOK, compile_apart)
        setattr(cpp_extension, HOOK, build)

    def _digest(self, arguments: Mapping[str, Any], root: Path) -> str:
        """Return a digest that no other extension of the same file has, wherever the file lies."""
        found = hashlib.sha256()
        for name, value in sorted(arguments.items()):
            text = "" if name in NO_PART else repr(value)
            for folder, word in ((f"{root}{os.sep}", "BUILD/"), (self._observation.home, "HOME/")):
                text = text.replace(folder, word)
            found.update(f"{name} {len(text)} {text} ".encode(errors="surrogateescape"))
        flags = [str(flag) for name, value in arguments.items() if name.startswith("extra_") for flag in value or ()]
        for source in (*map(str, arguments["sources"]), *self._observation.linked(flags)):
            self._observation.add_files([source])
            content = content_hash(os.path.abspath(source))
            found.update(f"{Path(source).name} {content} ".encode(errors="surrogateescape"))
        return found.hexdigest()[:16]

    def _is_built(self, folder: Path, name: str) -> bool:
        if not (folder / f"{name}.so").exists():
            return False
        try:
            included = json.loads((folder / INCLUDED).read_text())
            places = {
                os.path.normpath(os.path.join(self._observation.home, path)): had for path, had in included.items()
            }
        except (OSError, ValueError, AttributeError):
            return False
        self._observation.add_files([*places])
        return all(content_hash(place) == had for place, had in places.items())

    def _note_included(self, folder: Path) -> None:
        """Write down which files the sources include, toolchain and build folder apart."""
        own = {file for file in included_files(folder) if self._observation.counts(file)}
        self._observation.add_files(sorted(own))
        home = self._observation.home
        hashes = {os.path.relpath(file, home): content_hash(file) for file in sorted(own)}
        (folder / INCLUDED).write_text(json.dumps(hashes))


def included_files(folder: Path) -> set[str]:
    """Return the files that compilers read in a build folder, as ninja's dependency log has them."""
    ninja = shutil.which("ninja")
    if ninja is None:
        return set()
    command = [ninja, "-C", str(folder), "-t", "deps"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        printed = subprocess.run(command, capture_output=True, timeout=NINJA_TIMEOUT_S, check=False).stdout
        lines = os.fsdecode(printed).splitlines()
        # A file's name stands alone on a line of four spaces; `target: #deps ...` begins each list.
        return {os.path.normpath(folder / line[4:]) for line in lines if line.startswith("    ")}
    return set()


def _original(module: ModuleType, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module, name)
    return getattr(function, "original", function)


class _AtImport(importlib.abc.MetaPathFinder):
    """Finds torch's module on extensions as others do, and has the hooks put in place once it is imported."""

    def __init__(self, install: Callable[[], None]):
        self._put_in_place = install

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None, "part of torch"
        assert spec.loader is not None, "a file"
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._put_in_place()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _offer_nvcc() -> None:
    """Let nvcc compile CUDA sources without a GPU, and for a torch without CUDA, as far as possible.

    Torch alone would refuse before nvcc runs. An author needs nvcc's errors about the source.
    """
    import torch
    from torch.utils import cpp_extension

    nvcc = shutil.which("nvcc")
    if cpp_extension.CUDA_HOME is None and nvcc is not None:
        cpp_extension.CUDA_HOME = str(Path(nvcc).parent.parent)
    if not torch.cuda.is_available():
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", WITHOUT_A_DEVICE)
