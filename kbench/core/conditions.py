"""The conditions that two measurements must share so that their ratios can be compared: facts of their rows."""

from collections.abc import Callable
from operator import attrgetter

from kbench.core.model import ResultRow

CLOCKS_LOCKED = "clocks_locked"
"""Code of the finding that clocks were locked, followed by `_` and the clock in MHz."""
EVAL_MODE = "eval_mode"
"""Code of the finding that both sides ran in eval mode."""


def clocks_locked(row: ResultRow) -> str:
    """Return that code of a row; empty where its clocks were not locked."""
    return next((code for code in row.findings.split() if code.startswith(CLOCKS_LOCKED)), "")


def evaluates(row: ResultRow) -> bool:
    """Return whether both sides ran in eval mode."""
    return EVAL_MODE in row.findings.split()


def timed_by(row: ResultRow) -> str:
    """Name the kind of a row's times, which can be compared with those of this kind only.

    Events and the judge's clock measure the same rounds, as on a CPU do the worker's clock and the judge's.
    """
    return {"events": "device", "gate": "device", "judge": "host"}.get(row.timer, row.timer)


CONDITIONS: dict[str, tuple[str, Callable[[ResultRow], object]]] = {
    "other_device": ("device", attrgetter("device")),
    "other_gpu": ("GPU", attrgetter("gpu_name")),
    "other_mode": ("mode", attrgetter("mode")),
    "other_timer": ("timer", timed_by),
    "other_l2": ("L2 treatment", attrgetter("l2")),
    "other_clocks": ("lock of the clocks", lambda row: clocks_locked(row) or "none"),
    "other_tf32": ("TF32 setting", attrgetter("tf32")),
    "other_eval": ("eval mode", evaluates),
    "other_tolerance": ("oracle factor", attrgetter("oracle_factor")),
    "other_isolation": ("trust in the solution", lambda row: row.isolation == "none"),
    # The reference runs on torch: another torch moves every ratio.
    "other_torch": ("torch", attrgetter("torch")),
    "other_cuda": ("CUDA", attrgetter("cuda")),
}
"""By code of a difference: what differs, and its value in a row."""


def conditions_of(row: ResultRow) -> tuple[object, ...]:
    """Return all conditions of a row, those of its case and its device included."""
    case = row.problem_sha256, row.overrides, row.tensors, row.gpu_uuid, row.driver
    return *case, *(value(row) for _, value in CONDITIONS.values())
