"""How a child's failure is told in one line."""

import pytest

from kbench.core.model import Status
from kbench.process.child_error import KILLED, classify, explain_exit, headline, reported

TRITON = """CompilationError: at 9:8:
def _relu_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        ^
Unsupported ptr type <['4096'], int64> in `tl.load`
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ValueError: no", "ValueError: no"),
        ("AssertionError: ", "AssertionError"),
        ("ValueError: first\nsecond", "ValueError: first"),
        (TRITON, "CompilationError: at 9:8: Unsupported ptr type <['4096'], int64> in `tl.load`"),
        ("RuntimeError: Error(s) in loading:\n\n", "RuntimeError: Error(s) in loading"),
        ("\n\n", ""),
    ],
)
def test_an_exception_in_one_line(text: str, line: str) -> None:
    assert headline(text) == line


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"stage": "", "type": "ValueError", "message": "no"}, "ValueError: no"),
        ({"stage": "", "type": "", "message": "the judge's own words"}, "the judge's own words"),
        ({"type": "KeyError", "message": "a" * 600}, ("KeyError: " + "a" * 600)[:500]),
        ({}, "no reason given"),
        ("killed", "killed"),
    ],
)
def test_what_a_child_reports_is_told_in_one_line(error: object, reason: str) -> None:
    assert reported({"error": error}, "").reason == reason


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB", Status.OUT_OF_MEMORY),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Status.OUT_OF_MEMORY),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", Status.OUT_OF_MEMORY),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", Status.OUT_OF_MEMORY),
        (
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm(handle, opa, opb)`",
            Status.LAUNCH_FAILED,
        ),
        ("CUDA error: an illegal memory access was encountered", Status.ILLEGAL_ACCESS),
        ("CUDA error: invalid configuration argument", Status.LAUNCH_FAILED),
        ("no", Status.RAISED),
    ],
)
def test_an_exception_of_a_call_has_a_status_by_its_words(message: str, status: Status) -> None:
    assert classify("", "RuntimeError", message) is status


# words of a failure, whether a process was killed
KILLS = [
    (explain_exit(-9, "")[1], True),
    (explain_exit(137, "")[1], True),
    ("c++: fatal error: Killed signal terminated program cc1plus", True),
    ("g++: internal compiler error: Killed (program cc1plus)", True),
    ("collect2: fatal error: ld terminated with signal 9 [Killed]", True),
    ("clang++: error: unable to execute command: Killed", True),
    ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", True),
    ("PTXASError: PTXAS error: `ptxas` failed with error code -9", True),
    ("CalledProcessError: Command '['ninja', '-v']' died with <Signals.SIGKILL: 9>.", True),
    (explain_exit(-11, "")[1], False),
    (explain_exit(9, "")[1], False),
    ("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)", False),
    ("PTXASError: PTXAS error: `ptxas` failed with error code 9", False),
    ('k.cu(9): error: identifier "killed" is undefined', False),
    ("no answer within 9 s", False),
]


@pytest.mark.parametrize(("reason", "killed"), KILLS)
def test_a_failure_says_whether_a_process_was_killed(reason: str, killed: bool) -> None:
    assert bool(KILLED.search(reason)) is killed
