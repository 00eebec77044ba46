"""How a worker treats `torch.utils.cpp_extension`: a builder compiles, a judged worker only loads what was built.

Both `load` and `load_inline` go through two private functions of torch: one that is told the build folder, and below it
one that writes the ninja file and runs it. Those are the places to hook. What they do around them (naming, versions,
importing) stays torch's.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


class BuildError(RuntimeError):
    """An extension that does not compile, or that the build step did not build."""


WITHOUT_A_DEVICE = "9.0a"
"""What nvcc compiles for where no GPU tells: with Hopper's own instructions, so that no source is refused for one."""
MODULE = "torch.utils.cpp_extension"
HOOK = "_write_ninja_file_and_build_library"
FOLDER_HOOK = "_jit_compile"


def record_builds(on_compile: Callable[[], None]) -> None:
    """Let extensions compile; call `on_compile` when a compiler is about to start, for its longer time limit."""
    from torch.utils import cpp_extension

    _keep_in_cache()
    _offer_nvcc()
    original = getattr(cpp_extension, HOOK)
    original = getattr(original, "original", original)

    def build(*arguments: Any, **keywords: Any) -> Any:
        on_compile()
        return original(*arguments, **keywords)

    build.original = original  # type: ignore[attr-defined]
    setattr(cpp_extension, HOOK, build)


def require_builds() -> None:
    """Refuse to compile: an extension must be in the folder that the build step filled.

    That is put in place when torch's module is imported, which takes 0.2 s: most solutions need not wait for it.
    """
    if MODULE in sys.modules:
        _require_builds()
    elif not any(isinstance(finder, _AtImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AtImport())


class _AtImport(importlib.abc.MetaPathFinder):
    """Finds torch's module on extensions as others do, and has builds required once it is imported."""

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
            _require_builds()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _require_builds() -> None:
    from torch.utils import cpp_extension

    def build(name: str, *_arguments: Any, build_directory: str, **_keywords: Any) -> None:
        if not (Path(build_directory) / f"{name}.so").exists():
            raise BuildError(
                f"the extension `{name}` was not built in the build step: build it when the module is imported, in "
                "ModelNew's constructor or in the first call, and from sources that do not change"
            )

    _keep_in_cache()
    setattr(cpp_extension, HOOK, build)


def _offer_nvcc() -> None:
    """Have CUDA sources compiled without a GPU, and for a torch without CUDA, as far as that goes.

    Torch refuses before nvcc speaks. What nvcc says of a source helps its author more.
    """
    import torch
    from torch.utils import cpp_extension

    nvcc = shutil.which("nvcc")
    if cpp_extension.CUDA_HOME is None and nvcc is not None:
        cpp_extension.CUDA_HOME = str(Path(nvcc).parent.parent)
    if not torch.cuda.is_available():
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", WITHOUT_A_DEVICE)


def _keep_in_cache() -> None:
    """Have an extension that names a build folder of its own built in the cache's all the same.

    The folder that a builder sees is not the one that a judged worker sees.
    """
    from torch.utils import cpp_extension

    original = getattr(cpp_extension, FOLDER_HOOK)
    original = getattr(original, "original", original)
    signature = inspect.signature(original)

    def compile_in_cache(*arguments: Any, **keywords: Any) -> Any:
        bound = signature.bind(*arguments, **keywords)
        bound.arguments["build_directory"] = cpp_extension._get_build_directory(bound.arguments["name"], False)  # noqa: SLF001
        return original(*bound.args, **bound.kwargs)

    compile_in_cache.original = original  # type: ignore[attr-defined]
    setattr(cpp_extension, FOLDER_HOOK, compile_in_cache)
