"""Tracebacks without the frames that are nobody's fault."""

from pathlib import Path

import pytest
import torch

from kbench.core import traces


def test_a_crash_names_the_solutions_lines_alone() -> None:
    log = f"""printed before
  File "{torch.__file__}", line 1 in a line that the solution printed itself
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/home/me/my.py", line 3 in helper
  File "/home/me/my.py", line 10 in forward
  File "{torch.__file__}", line 1750 in _call_impl
  File "{traces.__file__}", line 251 in do_call
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy.linalg._umath_linalg, torch._C (total: 28)"""
    assert traces.without_machinery(log.splitlines()) == [*log.splitlines()[:7], ""]


def test_a_log_without_a_crash_stays_as_it_is() -> None:
    lines = ["one", f'  File "{traces.__file__}", line 1 in f', "Extension modules: mine"]
    assert traces.without_machinery(lines) == lines


def test_a_trace_has_no_frame_of_kbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constructor with other arguments raises where kbench calls it, and that line tells nobody anything."""
    monkeypatch.setattr(traces, "OWN", Path(__file__).parent)
    with pytest.raises(TypeError) as raised:
        int("1", base=2, more=3)
    (line,) = traces.trace_of(raised.value).splitlines()
    assert line.startswith("TypeError: ")


def test_torchs_frames_stay_where_there_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "OWN", Path(__file__).parent)
    with pytest.raises(NotImplementedError) as raised:
        torch.nn.Module()(1)
    first, *_ = traces.trace_of(raised.value).splitlines()
    assert "_forward_unimplemented" in first


LONG = [f"{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("error_at", "shown"),
    [
        (None, LONG[90:]),
        (95, [*LONG[90:95], "a.cpp:7:1: error: no matching function", *LONG[96:]]),
        (50, ["a.cpp:7:1: error: no matching function", *LONG[51:54], "[41 lines left out]", *LONG[95:]]),
        (89, ["a.cpp:7:1: error: no matching function", *LONG[90:93], "[2 lines left out]", *LONG[95:]]),
    ],
)
def test_a_compilers_first_error_is_shown_however_much_follows_it(error_at, shown) -> None:
    lines = [*LONG]
    if error_at is not None:
        lines[error_at] = "a.cpp:7:1: error: no matching function"
    assert traces.significant_lines(lines, 10) == shown
    assert traces.significant_lines(lines[:1], 10) == lines[:1]


def test_a_traceback_has_the_line_that_raised_first_and_none_of_torch(tmp_path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(
        "import torch\n"
        "def inner(x):\n    return torch.nn.functional.linear(x, x[:, :1])\n"
        "def outer(x):\n    return inner(x)\n"
    )
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(RuntimeError) as raised:
        torch.nn.Sequential(Calling(names["outer"]))(torch.ones(2, 3))
    lines = traces.trace_of(raised.value).splitlines()
    own = [line for line in lines if str(path) in line]
    assert own[0] == f"{path}:3, in inner: return torch.nn.functional.linear(x, x[:, :1])"
    assert own[1].startswith(f"  called from {path}:5, in outer")
    assert not any("site-packages/torch" in line for line in lines)
    assert lines[-1].startswith("RuntimeError: ")


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_an_exception_of_torch_alone_keeps_its_frames() -> None:
    assert traces.is_machinery(torch.__file__)
    assert traces.is_machinery(traces.__file__)
    assert not traces.is_machinery(str(traces.OWN / "solutions" / "group_norm" / "x.py"))
    assert not traces.is_machinery("/home/me/torch/solution.py")


LOGS = {
    "nvcc": (
        (
            "[1/2] nvcc -c a.cu\na.cu(1): warning #177-D: variable was declared but never referenced\n"
            'a.cu(2): error: identifier "undefined_name" is undefined\n  p[0] = undefined_name;\n\n'
            '1 error detected in the compilation of "a.cu".\nninja: build stopped: subcommand failed.\n'
        ),
        'a.cu(2): error: identifier "undefined_name" is undefined',
    ),
    "ptxas": (
        (
            "ptxas info    : 0 bytes gmem\n"
            "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x40000 bytes, 0xc000 max)\n"
        ),
        "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x40000 bytes, 0xc000 max)",
    ),
    "nvcc fatal": (
        "nvcc fatal   : Unsupported gpu architecture 'sm_12'\n",
        "nvcc fatal   : Unsupported gpu architecture 'sm_12'",
    ),
    "g++": (
        (
            "b.cpp: In function ‘int main()’:\n"
            "b.cpp:2:22: error: invalid conversion from ‘const char*’ to ‘int’ [-fpermissive]\n    2 | int main()\n"
        ),
        "b.cpp:2:22: error: invalid conversion from ‘const char*’ to ‘int’ [-fpermissive]",
    ),
    "missing header": (
        "e.cpp:1:10: fatal error: not_there.h: No such file or directory\ncompilation terminated.\n",
        "e.cpp:1:10: fatal error: not_there.h: No such file or directory",
    ),
    "linker": (
        (
            "/usr/bin/ld: /tmp/c.o: in function `main':\n"
            "c.cpp:(.text+0xa): undefined reference to `missing_function(int)'\n"
            "collect2: error: ld returned 1 exit status\n"
        ),
        "c.cpp:(.text+0xa): undefined reference to `missing_function(int)'",
    ),
    "missing library": (
        "/usr/bin/ld: cannot find -lnot_there: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        "/usr/bin/ld: cannot find -lnot_there: No such file or directory",
    ),
    "in the folder of the build": (
        '/cache/builds/.5cda90-x/extensions/mine/cuda.cu(5): error: identifier "x" is undefined\n',
        'mine/cuda.cu(5): error: identifier "x" is undefined',
    ),
    "torch without CUDA": (
        "/usr/bin/ld: cannot find -lc10_cuda: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        "its CUDA sources compile, but this torch was built without CUDA and cannot link them",
    ),
    "the compiler alone": (
        "/x/ATen/cuda/CUDAContextLight.h:10:10: fatal error: cusparse.h: No such file or directory\n",
        "torch's headers for a GPU need those of CUDA's libraries: here is the compiler alone",
    ),
    "no nvcc": (
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n",
        "no CUDA compiler: nvcc is not on PATH, and CUDA_HOME is not set",
    ),
    "none": (
        (
            "a.cu(1): warning #177-D: variable error_count was declared but never referenced\n0 errors\n"
            "RuntimeError: Error building extension 'x'\n"
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_first_error(name) -> None:
    log, expected = LOGS[name]
    assert traces.first_error(log) == expected
