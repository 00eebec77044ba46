"""How a worker treats `torch.utils.cpp_extension`: a builder compiles, a judged worker only loads what was built.

Both `load` and `load_inline` end in one private function of torch that writes the ninja file and runs it; that is the
one place to hook. What they do around it (naming, versions, importing) stays torch's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any


class BuildError(RuntimeError):
    """An extension that does not compile, or that the build step did not build."""


HOOK = "_write_ninja_file_and_build_library"


def record_builds(on_compile: Callable[[], None]) -> None:
    """Let extensions compile; call `on_compile` when a compiler is about to start, for its longer time limit."""
    from torch.utils import cpp_extension

    original = getattr(cpp_extension, HOOK)
    original = getattr(original, "original", original)

    def build(*arguments: Any, **keywords: Any) -> Any:
        on_compile()
        return original(*arguments, **keywords)

    build.original = original  # type: ignore[attr-defined]
    setattr(cpp_extension, HOOK, build)


def require_builds() -> None:
    """Refuse to compile: an extension must be in the folder that the build step filled."""
    from torch.utils import cpp_extension

    def build(name: str, *_arguments: Any, build_directory: str, **_keywords: Any) -> None:
        if not (Path(build_directory) / f"{name}.so").exists():
            raise BuildError(
                f"the extension `{name}` was not built in the build step: build it when the module is imported or in "
                "ModelNew's constructor, not in forward, and from sources that do not change"
            )

    setattr(cpp_extension, HOOK, build)
