"""Languages that compile while a solution runs: what is installed, and where they keep what they make."""

import pytest

from kbench.build import cache, languages


def test_versions_are_read_of_what_is_installed(monkeypatch):
    monkeypatch.setattr(languages, "PACKAGES", ("pytest", "no-such-language"))
    assert languages.installed() == {"pytest": pytest.__version__, "no-such-language": None}


def test_their_caches_are_kbenchs_own(tmp_path):
    assert {"TRITON_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "TILELANG_CACHE_DIR", "HELION_CACHE_DIR"} < set(
        cache.ENVIRONMENT_FOLDERS
    )
