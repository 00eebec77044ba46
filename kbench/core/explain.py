"""What every code that kbench prints means, and what to do about it: the data behind `kbench explain`."""

from dataclasses import dataclass
from typing import Literal

from kbench.core.model import Status

Kind = Literal["status", "finding", "flag", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code: what it means, and what to type or change."""

    code: str
    kind: Kind
    meaning: str
    fix: str


_STATUSES: dict[Status, tuple[str, str]] = {
    Status.PASSED: (
        "Every output of every call held the tolerance, those of the timed calls included.",
        "Nothing.",
    ),
    Status.BUILD_FAILED: (
        "The solution's sources did not compile. The first error of the compiler is shown.",
        "Correct that error; `-v` shows the whole log.",
    ),
    Status.BUILD_TIMEOUT: (
        "Compiling took longer than allowed.",
        "Raise `--build-timeout`, or compile for fewer architectures and include less.",
    ),
    Status.IMPORT_FAILED: (
        "Importing the solution file raised an exception.",
        "Read the last line of the log: a missing module, or code at the top level that fails.",
    ),
    Status.IMPORT_TIMEOUT: (
        "Importing the solution file took longer than allowed.",
        "Move work from the top level into `ModelNew`, or raise `--import-timeout`.",
    ),
    Status.INIT_FAILED: (
        "`ModelNew(*get_init_inputs())` raised an exception.",
        "Give `ModelNew` the constructor arguments of the problem's `Model`.",
    ),
    Status.RAISED: ("A call of the solution raised an exception.", "The log ends with the exception."),
    Status.WRONG_VALUE: (
        "Some output elements differ from the reference by more than the tolerance.",
        "Look at the named indices: a tail that is not covered, a lost precision, a wrong reduction.",
    ),
    Status.WRONG_SHAPE: ("An output has another shape than the reference's.", "Compare both shapes."),
    Status.WRONG_DTYPE: (
        "An output has another dtype than the reference's.",
        "Compute in the precision you like, but return the reference's dtype.",
    ),
    Status.WRONG_DEVICE: (
        "An output lies on another device than the reference's.",
        "Return it where inputs are.",
    ),
    Status.WRONG_STRUCTURE: (
        "The outputs are nested in another way, or their number differs.",
        "Return the same tuple, list or dictionary as the reference.",
    ),
    Status.WRONG_TYPE: (
        "An output is not a plain tensor where the reference returns one.",
        "Return tensors, not subclasses, lazy objects or numbers.",
    ),
    Status.WRONG_GRADIENT: (
        "The forward pass is right, a gradient is not.",
        "Check the backward pass of the named input, or run without `--backward`.",
    ),
    Status.UNWRITTEN_OUTPUT: (
        "Some output elements were never written: they still hold what the memory held before.",
        "Cover the whole output: look at tails, early exits and the launch's grid size.",
    ),
    Status.NONDETERMINISTIC: (
        "Two identical calls differ by more than rounding explains.",
        "Look for a race: a missing barrier, an atomic, memory that is read before it is written.",
    ),
    Status.INPUT_MUTATED: ("The solution changed its inputs.", "Work on a copy, or out of place."),
    Status.PARAMETER_MUTATED: (
        "The solution changed its parameters or buffers where the reference does not.",
        "Work on a copy, or out of place.",
    ),
    Status.OUTPUT_ALIASED: (
        "An output shares memory with an input or with an earlier output.",
        "Allocate the output anew in each call.",
    ),
    Status.FRAGILE: (
        "The solution breaks on badly conditioned inputs that the reference handles.",
        "Use a stable formula (for variances: shifted or two-pass), or run without `--robust`.",
    ),
    Status.LIBRARY_ONLY: (
        "No kernel of the solution's own was seen, and `--require-custom` asks for one.",
        "Launch a kernel of your own, or run without `--require-custom`.",
    ),
    Status.LAUNCH_FAILED: (
        "The device refused to launch a kernel.",
        "Hold threads per block, shared memory and registers against the device's limits.",
    ),
    Status.ILLEGAL_ACCESS: (
        "A kernel read or wrote memory that is not its own.",
        "Find the index with `--sanitize`.",
    ),
    Status.CRASHED: ("The worker process died by a signal.", "The signal and the log's tail are shown."),
    Status.EXITED: (
        "The solution ended the worker process by itself.",
        "Remove calls of `exit`, `_exit` and the like.",
    ),
    Status.CALL_TIMEOUT: (
        "One call took longer than allowed: max(10 s, 50 × the reference) unless set.",
        "Look for a deadlock (a barrier that some threads skip), or raise `--call-timeout`.",
    ),
    Status.TOTAL_TIMEOUT: ("The whole evaluation took longer than allowed.", "Raise `--timeout`."),
    Status.OUT_OF_MEMORY: (
        "The solution needed more memory than the device or its limit has left.",
        "Use fewer temporaries, or try a smaller case with `--case`.",
    ),
    Status.PROTOCOL_ERROR: (
        "The worker answered something that is not in the protocol.",
        "A solution must leave the worker's descriptors and modules alone.",
    ),
    Status.TIMING_UNATTESTED: (
        "The time that the worker claims is shorter than the judge's own clock allows.",
        "Do the work inside the call, on the current stream: no threads, no other streams left unjoined.",
    ),
    Status.REFERENCE_FAILED: (
        "The problem's own reference or `get_inputs` failed.",
        "Correct the problem file; solutions were not judged.",
    ),
    Status.NOT_VERIFIED: (
        "No check could decide, so the result counts neither as right nor as wrong.",
        "Read the reason; a smaller case or another device may decide.",
    ),
    Status.SKIPPED: (
        "The case does not apply here, and the reason says why.",
        "Nothing, or choose another case.",
    ),
    Status.HARNESS_ERROR: (
        "A part of kbench failed, not the solution.",
        "Run again with `-v`, and report it with what that prints.",
    ),
}

_OTHERS: tuple[Explanation, ...] = ()

EXPLANATIONS: dict[str, Explanation] = {
    **{
        status.value: Explanation(code=status.value, kind="status", meaning=meaning, fix=fix)
        for status, (meaning, fix) in _STATUSES.items()
    },
    **{entry.code: entry for entry in _OTHERS},
}


def explain(code: str) -> Explanation | None:
    """Find the explanation of a code; numbers at its end (`mean_offset_30`) do not matter."""
    known = EXPLANATIONS.get(code)
    if known is None:
        known = EXPLANATIONS.get(code.rstrip("0123456789").rstrip("_"))
    return known
