"""Languages that compile while a solution runs: what is installed, and where they keep what they make."""

from pathlib import Path

import pytest

from kbench.build import cache, languages
from kbench.build.sources import Compiler, compiler_of


def test_versions_are_read_of_what_is_installed(monkeypatch):
    monkeypatch.setattr(languages, "PACKAGES", ("pytest", "no-such-language"))
    assert languages.installed() == {"pytest": pytest.__version__, "no-such-language": None}


def test_their_caches_are_kbenchs_own(tmp_path):
    assert {"TRITON_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "TILELANG_CACHE_DIR", "HELION_CACHE_DIR"} < set(
        cache.ENVIRONMENT_FOLDERS
    )


@pytest.mark.parametrize("line", ["import helion", "import tilelang", "import cutlass.cute as cute", "import triton"])
def test_whoever_imports_one_may_compile_in_calls(tmp_path: Path, line: str):
    path = tmp_path / "s.py"
    path.write_text(line + "\n")
    assert compiler_of(path, None) is Compiler.KERNELS
