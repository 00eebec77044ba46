"""What every code that kbench prints means, and what to do about it: the data behind `kbench explain`."""

from dataclasses import dataclass
from typing import Literal

from kbench.core.diagnosis import MEANINGS
from kbench.core.explanations import BOTTLENECKS, CHECKS, FLAGS, VERDICTS
from kbench.core.levels import PROPERTIES
from kbench.core.model import Status

CodeKind = Literal["status", "property", "diagnosis", "finding", "flag", "verdict", "bottleneck", "check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code: what it means, and what to type or change."""

    code: str
    kind: CodeKind
    meaning: str
    fix: str


_STATUSES: dict[Status, tuple[str, str]] = {
    Status.PASSED: ("Every output of every call is within the tolerance, also in timed calls.", "Nothing."),
    Status.BUILD_FAILED: (
        "The solution's sources did not compile. The first error of the compiler is shown.",
        "Correct that error, or install what is missing; `-v` shows the whole log.",
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
        "Look at the named indices: a tail not covered, lost precision, weights that were read at construction only.",
    ),
    Status.WRONG_SHAPE: ("An output has another shape than the reference's.", "Compare both shapes."),
    Status.WRONG_DTYPE: (
        "An output has another dtype than the reference's.",
        "Compute in the precision you like, but return the reference's dtype.",
    ),
    Status.WRONG_DEVICE: (
        "An output lies on another device than the reference's.",
        "Return it on the device of the inputs.",
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
        "Allocate a new output in each call.",
    ),
    Status.TAMPERED: (
        "The solution replaced a clock or a function of torch for the whole process, so its times mean nothing.",
        "Remove the assignment to the named function; give your own function another name.",
    ),
    Status.BELOW_LEVEL: (
        "The solution does the task as the problem sets it, but is not right for all that the required level asks for.",
        "Read what it `lacks`; require less with `--level task`, or excuse one property with `--accept CODE`.",
    ),
    Status.FRAGILE: (
        "In files of earlier versions: the solution breaks on badly conditioned inputs that the reference handles.",
        "Measure again: with `--level general` it is `below_level` now.",
    ),
    Status.LIBRARY_ONLY: (
        "No kernel of the solution's own was seen, and `--require-custom` asks for one.",
        "Launch a kernel of your own, or run without `--require-custom`.",
    ),
    Status.LAUNCH_FAILED: (
        "The device refused to launch a kernel.",
        "Compare threads per block, shared memory and registers with the device's limits.",
    ),
    Status.ILLEGAL_ACCESS: (
        "A kernel read or wrote memory that is not its own.",
        "Correct the index at the named line; `kbench verify PROBLEM SOLUTION --sanitize` looks for more of them.",
    ),
    Status.DATA_RACE: (
        "Threads of a kernel access the same shared memory in no fixed order, and one of them writes.",
        "Put a barrier (`__syncthreads`, `__syncwarp`) between the two named lines.",
    ),
    Status.CRASHED: (
        "The worker process died by a signal.",
        "Look at the log's tail; `--sanitize` finds wild accesses of kernels.",
    ),
    Status.EXITED: (
        "The solution ended its own worker process.",
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
        "It was not judged: the solution is not made for this device, or the problem lacks the case.",
        "Choose another solution, case or `--device`.",
    ),
    Status.HARNESS_ERROR: (
        "A part of kbench failed, not the solution.",
        "Run again with `-v`, and report it with what that prints.",
    ),
}

_FINDINGS: dict[str, tuple[str, str]] = {
    "budget": (
        "The time to measure was over before the interval was as narrow as asked for.",
        "Add the options that the message names, or take a quieter device or a larger case.",
    ),
    "non_contiguous": ("In files of earlier versions: wrong for inputs with other strides.", "See `strided`."),
    "skipped_inputs": (
        "A kind of input was left out because the reference itself is not finite or accurate on it, or raises.",
        "Nothing; it counts neither for nor against the solution.",
    ),
    "smaller_case": (
        "The case does not fit the device's memory, so a sweep judged the problem's small case.",
        "Take a device with more memory for the full case.",
    ),
    "eval_asked": ("Both sides ran in eval mode, because `--eval` asks for it.", "Nothing; the row says so."),
    "eval_mode": (
        "The reference is random in training mode (dropout, for example), so both sides ran in evaluation mode.",
        "Nothing; the row says so.",
    ),
    "unvaried_input": (
        "Some inputs are the same for every seed, so a solution that assumes their values looks right.",
        "Draw them at random in `get_inputs`, or check by hand that the solution reads them.",
    ),
    "trivial_passes": (
        "Zeros, one value everywhere or the answer to other inputs would pass as well, so being right proves little.",
        "Choose inputs that change the result by more than its tolerance.",
    ),
    "ties": (
        "Indices differ from the reference's, but point at equal values of an input.",
        "Nothing; either of two equal values may come first.",
    ),
    "nondeterministic_bits": (
        "Equal inputs gave outputs that differ in their last bits, within the tolerance.",
        "Nothing; atomics in another order do this.",
    ),
    "kernels": (
        "The device kernels that one call launched, and where each comes from.",
        "Nothing; `--require-custom` asks for at least one of the solution's own.",
    ),
    "crosscheck_cupti": (
        "The profiler's time of the kernels, next to the time that events measured.",
        "If events are longer, look for gaps between launches; if kernels are, for work on other streams.",
    ),
    "own_share": (
        "Whose kernels a call launches is not known: the profiler did not work, or the solution failed below it.",
        "Nothing, the verdict does not depend on it; `kbench profile PROBLEM SOLUTION` shows more.",
    ),
    "no_peaks": (
        "This device's peaks were never measured, so there is no limit to compare with.",
        "Measure them once: `kbench doctor`.",
    ),
    "memcheck": (
        "memcheck saw a kernel read or write memory that is not its own, at the named line.",
        "Correct the index; look at tails where the grid goes beyond the end.",
    ),
    "racecheck": (
        "racecheck saw threads access the same shared memory in no fixed order. What it calls a warning is not fatal.",
        "Put a barrier between the two named lines.",
    ),
    "initcheck": (
        "initcheck saw a kernel read device memory that nothing had written. Fatal with `--level general` only.",
        "Write before you read, or read no padding; poisoned memory also shows what reaches an output.",
    ),
    "sanitizer": (
        "What compute-sanitizer checked, and what it could not check.",
        "If it could not run, try `compute-sanitizer` by hand on a small case.",
    ),
    "device_quarantined": (
        "The device stopped working before all processes had run; earlier measurements are kept.",
        "See `kbench doctor`, reset the device, then `kbench doctor --clear-quarantine`.",
    ),
    "clocks_locked": (
        "The SM clock was locked with `--lock-clocks`: rows are compared with rows of the same clock only.",
        "Nothing; measure both sides the same way.",
    ),
    "foreign_processes": (
        "Other processes used the device, and may have disturbed the times.",
        "End them, or choose another device with `--device cuda:1`.",
    ),
    "host_lost": (
        "A host of the cluster ended while it judged this solution; another host judged it again.",
        "Nothing for this row; see Ray's logs for why the host ended.",
    ),
    "no_oracle": (
        "No fp64 reference could be computed at this size, so the contract alone decided.",
        "Verify a smaller case too: `--case small`.",
    ),
    "other_shape": (
        "In files of earlier versions: the answer is wrong at a shape that the problem does not list.",
        "See `shape_specialised`.",
    ),
    "specialised": (
        "In files of earlier versions: the solution raises at other shapes or layouts than the problem's own.",
        "See `shape_refused`.",
    ),
    "shapes_not_derived": (
        "No other shape could be made from the problem's constants, so only its own was verified.",
        'Name others: `CASES = {"default": {}, "ragged": {"batch_size": 3}}` in the problem file.',
    ),
    "weights_kept": (
        "With other parameters the reference is not finite, so they keep the values that the constructor gave them.",
        "Nothing; check by hand that the solution reads them.",
    ),
    "weights_by_seed": (
        "In files of earlier versions: the parameters match the reference's only by seed, so they kept their values.",
        "See `unmatched_weights`.",
    ),
}


def _table(kind: CodeKind, entries: dict[str, tuple[str, str]]) -> dict[str, Explanation]:
    return {
        code: Explanation(code=code, kind=kind, meaning=meaning, fix=fix) for code, (meaning, fix) in entries.items()
    }


EXPLANATIONS: dict[str, Explanation] = {
    **_table("status", {status.value: texts for status, texts in _STATUSES.items()}),
    **_table("diagnosis", MEANINGS),
    **_table("property", {code: (one.meaning, one.fix) for code, one in PROPERTIES.items()}),
    **_table("finding", _FINDINGS),
    **_table("flag", FLAGS),
    **_table("verdict", VERDICTS),
    **_table("bottleneck", BOTTLENECKS),
    **_table("check", CHECKS),
}
"""By code. Codes with a parameter, such as `mean_offset_30` and `skipped_negated`, have one entry for all."""


def explain(code: str) -> Explanation | None:
    """Find the explanation of a code; case, hyphens and the parameter of a code do not matter."""
    name = code.strip().lower().replace("-", "_").replace(" ", "_")
    without_number = name.rstrip("0123456789").rstrip("_")
    family = "skipped_inputs" if name.startswith("skipped_") else without_number
    return EXPLANATIONS.get(name) or EXPLANATIONS.get(family)
