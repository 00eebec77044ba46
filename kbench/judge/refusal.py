"""Errors that end an evaluation early: a solution that failed, with the reason."""

import math
import re
from typing import Self

import torch

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Correctness, Status
from kbench.core.printable import printable
from kbench.core.values import Ruling
from kbench.numerics import elements
from kbench.process.channel import Message

MAX_ERROR_LENGTH = 200
"""Largest number of characters of CUDA's error that are shown."""
DTYPE_WORDS = re.compile(r"dtype|Double|Half|BFloat16|scalar type", re.I)
LAUNCHES = (
    (
        "no kernel image",
        "it was compiled for another GPU: leave TORCH_CUDA_ARCH_LIST and `-arch` out, or name this GPU's architecture",
    ),
    ("invalid device function", "it was compiled for another GPU, or the kernel's library was unloaded"),
    ("too many resources", "threads per block times registers are more than the device has"),
    (
        "invalid argument",
        "the grid or block is empty or too large, or 48 KiB of shared memory need `cudaFuncSetAttribute`",
    ),
    ("invalid configuration", "the grid or the block is empty or larger than the device allows"),
)
"""Usual causes of a refused launch, by CUDA's message."""

FATAL = frozenset(
    {
        *(Status.INPUT_MUTATED, Status.PARAMETER_MUTATED, Status.OUTPUT_ALIASED, Status.NONDETERMINISTIC),
        *(Status.TAMPERED, Status.PROTOCOL_ERROR, Status.NOT_VERIFIED, Status.HARNESS_ERROR),
        *(Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT, Status.TOTAL_TIMEOUT),
    }
)
"""Statuses of cheating, or with a cause other than a shape, a layout or a value."""
STRAY_WRITES = {Status.INPUT_MUTATED, Status.NONDETERMINISTIC}
"""Fatal statuses that a kernel may also have by writing outside its tensors at a shape that it was not made for."""


HARMLESS = {
    *(Status.WRONG_VALUE, Status.WRONG_OUTPUT, Status.UNWRITTEN_OUTPUT, Status.RAISED, Status.INIT_FAILED),
}
"""Failures that do no harm to the process or its device context."""


class RefusalError(Exception):
    """A solution that failed: status, reason and log."""

    def __init__(self, status: Status, reason: str, log: str = ""):
        super().__init__(reason)
        self.status = status
        self.reason = printable(reason)
        self.log = log
        self.diagnosis: Diagnosis | None = None
        self.excess = math.inf
        """Largest error of wrong values, in units of the allowed error."""
        self.is_lack = False
        """True if it ends no verdict where others of its status do."""

    @property
    def explained(self) -> str:
        """The reason, after the diagnosis if there is one."""
        return self.reason if self.diagnosis is None else f"{self.diagnosis.sentence}; {self.reason}"

    def without_frames(self) -> Self:
        """Return the error without its frames, which hold the tensors of the call."""
        self.__context__ = None
        return self.with_traceback(None)


class WrongError(RefusalError):
    """Wrong values, with the figures of the comparison."""

    def __init__(self, status: Status, reason: str, log: str, correctness: Correctness):
        super().__init__(status, reason, log)
        self.correctness = correctness


def default_dtype(refusal: RefusalError) -> str:
    """Return advice for a refusal about dtypes, if the problem has set torch's default dtype; else an empty text."""
    default = torch.get_default_dtype()
    if default is torch.float32 or not DTYPE_WORDS.search(refusal.reason):
        return ""
    return (
        f"; the problem sets torch's default dtype to {default}, and a solution has a process of its own, where it is "
        f"torch.float32: put `torch.set_default_dtype({default})` into the solution"
    )


class UnbuiltError(Exception):
    """An attempt to start a program by a solution whose build has not seen that; the message names the attempt.

    This is no refusal: the solution is built with the right to do so, and judged in a fresh worker.
    """


def require_untampered(answer: Message, log: str) -> None:
    """Raise RefusalError if a worker reports that its clocks or functions of torch were replaced."""
    replaced = answer.get("replaced")
    if replaced:
        names = replaced if isinstance(replaced, list) else [replaced]
        shown = ", ".join(f"`{str(name)[:80]}`" for name in names[:3]) + (" and more" if len(names) > 3 else "")
        raise RefusalError(Status.TAMPERED, f"the solution replaced {shown} in its process", log)


def failed_launch(error: str) -> str:
    """Return the likely cause of wrong values by CUDA's error of an unchecked launch; empty without an error."""
    if not error:
        return ""
    error = error[:MAX_ERROR_LENGTH]
    instead = next((text for words, text in LAUNCHES if words in error), "check `cudaGetLastError()` after each launch")
    return f"a launch failed, and the solution did not check it: CUDA reports `{error}`; {instead}; "


def describe_wrong(differences: list[elements.Difference], ruling: Ruling, tolerance: elements.Tolerance) -> str:
    """Describe wrong outputs: the first place, the number of elements, the largest error and the allowed one.

    If only the fp64 rule is broken, no element counts as wrong, and the mismatch is the place furthest from fp64.
    """
    wrong, total = sum(d.wrong for d in differences), sum(d.elements for d in differences)
    poisoned = sum(d.poisoned for d in differences)
    parts = []
    mismatch = next((m for d in differences for m in d.mismatches), None)
    if mismatch is not None:
        index = f"[{', '.join(map(str, mismatch.index))}]" if mismatch.index else ""
        wanted = "want" if wrong else "fp64 gives"
        parts.append(f"{mismatch.output}{index}: got {mismatch.got:.9g}, {wanted} {mismatch.want:.9g}")
        if not math.isfinite(mismatch.want):
            want = f"{mismatch.want:g}"
            parts.append(f"the reference itself is {want} there, and only {want} equals {want}")
    if wrong:
        parts.append(f"{wrong:,} of {total:,} elements wrong")
    worst = next((d.ratio for d in differences if d.ratio > 1), 0.0)
    if wrong and not tolerance.exact and math.isfinite(worst):
        parts.append(f"the worst off by {worst:.3g} times the allowed {in_words(tolerance)}")
    if not wrong or (ruling.allowed > 1 and not tolerance.exact):
        scaled = "" if tolerance.exact else f" (tolerance: {in_words(tolerance, near_zero=True)})"
        parts.append(f"{ruling.reason}{scaled}")
    if poisoned:
        parts.append(f"{poisoned:,} elements were never written")
    return "; ".join(parts)


def in_words(tolerance: elements.Tolerance, *, near_zero: bool = False) -> str:
    """Return the allowed error as a formula: `1e-5 + 1e-5·|want|`; `near_zero`: for the distance from fp64."""
    least = tolerance.near_zero(1.0) if near_zero else tolerance.atol
    scale = (" · rms" if tolerance.coarse else " · min(1, rms)") if near_zero else ""
    atol, rtol = (f"{number:g}".replace("e-0", "e-") for number in (least, tolerance.rtol))
    return f"{atol}{scale} + {rtol}·|want|"
