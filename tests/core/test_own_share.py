"""When a call is profiled for the column `own_share`, what share kernels have, and which flag follows."""

import pytest

from kbench.core.kernel_names import KernelOrigin, flag_of, share_of, share_source

OWN, LIBRARY, COMPILED, COPY = KernelOrigin.OWN, KernelOrigin.LIBRARY, KernelOrigin.COMPILED, KernelOrigin.COPY
SOLUTION = {"names_kernels": True, "is_asked": False, "is_builtin": False, "processes": 10}
SOURCES = {
    "a solution on a GPU": ({}, "worker"),
    "two processes are more than `--quick`": ({"processes": 2}, "worker"),
    "`--quick`": ({"processes": 1}, "unknown"),
    "a processor has no kernels": ({"names_kernels": False}, "unknown"),
    "a processor, and asked": ({"names_kernels": False, "is_asked": True}, "unknown"),
    "`--require-custom`": ({"is_asked": True}, "judge"),
    "`--require-custom --quick`": ({"is_asked": True, "processes": 1}, "judge"),
    "`eager`": ({"is_builtin": True}, "builtin"),
    "`eager --quick`": ({"is_builtin": True, "processes": 1}, "builtin"),
    "`eager --require-custom`": ({"is_builtin": True, "is_asked": True}, "judge"),
    "`eager` on a processor": ({"names_kernels": False, "is_builtin": True}, "unknown"),
}


@pytest.mark.parametrize(("changes", "source"), SOURCES.values(), ids=SOURCES)
def test_where_the_share_comes_from(changes, source):
    assert share_source(**{**SOLUTION, **changes}) == source


FLAGS = {
    "its own kernel": ([(OWN, 10)], True, 1.0, ""),
    "beside a library": ([(OWN, 30), (LIBRARY, 50), (COPY, 20)], True, 0.3, ""),
    "a little more than a hundredth": ([(OWN, 2), (LIBRARY, 98)], True, 0.02, ""),
    "a hundredth": ([(OWN, 1), (LIBRARY, 99)], True, 0.01, "library_time"),
    "its extension was not loaded": ([(LIBRARY, 50), (COPY, 20)], True, 0.0, "fallback"),
    "compiled where it has kernels": ([(COMPILED, 50)], True, 0.0, "fallback"),
    "torch, and never promised more": ([(LIBRARY, 50)], False, 0.0, "library_time"),
    "torch.compile": ([(COMPILED, 50), (LIBRARY, 1)], False, 0.0, "library_time"),
    "nothing was seen": ([], True, None, ""),
    "nothing took time": ([(OWN, 0)], True, None, ""),
}


@pytest.mark.parametrize(("timed", "declares", "share", "flag"), FLAGS.values(), ids=FLAGS)
def test_the_share_and_its_flag(timed, declares, share, flag):
    found = share_of(timed, OWN)
    assert found == (None if share is None else pytest.approx(share))
    assert flag_of(found, declares_kernels=declares) == flag
