"""Words that suggest a build: they only save time."""

import pytest

from kbench.build import hints


@pytest.mark.parametrize(
    ("text", "builds", "calls"),
    [
        ("from torch.utils.cpp_extension import load", True, False),
        ("import subprocess", True, False),
        ("import triton", True, True),
        ("x = torch.compile(f)", True, True),
        ("import helion", True, True),
        ("import tilelang", True, True),
        ("import cutlass.cute as cute", True, True),
        ("import torch", False, False),
        ("subprocesses = jitter = 1", False, False),
    ],
)
def test_words(tmp_path, text, builds, calls):
    path = tmp_path / "s.py"
    path.write_text(text)
    assert hints.may_compile(path, None) is builds
    assert hints.may_compile_in_calls(path, None) is calls
    assert hints.may_compile(path, "eager") is builds, "its reference may be an extension"
    assert hints.may_compile(path, "compile")
    assert hints.may_compile_in_calls(path, "compile")


def test_a_lost_or_odd_file_suggests_nothing(tmp_path):
    assert not hints.may_compile(tmp_path / "gone.py", None)
    assert not hints.may_compile(tmp_path, None)
