"""A guess from a file's text: whether to build it before it gets a device. It decides neither identity nor rights.

A wrong guess costs time only: a solution that is built for nothing, or one that comes back from its worker to be built
(`kbench.build.observation`).
"""

import contextlib
import re
from pathlib import Path

from kbench.catalog.source import read_head

IN_CALLS = re.compile(
    r"\btriton\b|\btorch\.compile\b|\bcompile_kernel\b|\bnvrtc\b|\btilelang\b|\bhelion\b|\bcutlass\b|\bnumba\b"
)
"""Languages that compile in the first call rather than when they are imported."""
ANY = re.compile(
    rf"cpp_extension|load_inline|\bninja\b|\bnvcc\b|\bcupy\b|\bcffi\b|\bjit\b|\bsubprocess\b|{IN_CALLS.pattern}"
)


def may_compile(path: Path, builtin: str | None) -> bool:
    """Return whether a solution is worth a build before its device is free; `eager` is its problem's own model."""
    return builtin not in {None, "eager"} or bool(ANY.search(_text(path)))


def may_compile_in_calls(path: Path, builtin: str | None) -> bool:
    """Return whether it is worth a call in the build, too."""
    return builtin not in {None, "eager"} or bool(IN_CALLS.search(_text(path)))


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return read_head(path).decode(errors="replace")
    return ""
