"""Kernels of one call of a solution, as its worker's profiler lists them.

The list comes from the worker and is evidence, not proof: a solution could forge it. It decides `--require-custom`
only, and no time rests on it.
"""

import secrets
from collections.abc import Sequence

from kbench.core.kernel_names import KernelOrigin, describe_kernels, origin, share_of
from kbench.core.model import Status
from kbench.core.ranges import LARGEST
from kbench.core.trace import LONGEST_NAME, DeviceActivity
from kbench.devices.backend import backend
from kbench.judge.exchange import Trial
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.judge.worker_link import REQUEST_TIMEOUT_S
from kbench.process.channel import WireError, list_of

NOTHING_RECORDED = "the profiler recorded nothing: is CUPTI installed?"
TIMES_NS = range(LARGEST + 1)
WARM_UPS = 3
"""Chosen. Calls before the profiled one: the first compiles and tunes, the second may record a CUDA graph."""


def activities(answer: object) -> tuple[DeviceActivity, ...]:
    """Validate a worker's list of [name, start, duration]. Raises WireError for other entries or negative times."""
    if not isinstance(answer, list):
        raise WireError("activities come as a list")
    found = []
    for item in answer:
        match item:
            case [str() as name, int() as start, int() as duration] if start in TIMES_NS and duration in TIMES_NS:
                found.append(DeviceActivity(name=name[:LONGEST_NAME], start_ns=start, duration_ns=duration))
            case _:
                raise WireError("an activity is a name, a start and a duration")
    return tuple(found)


def own_share(seen: Sequence[DeviceActivity]) -> float | None:
    """Return the share of the time in the solution's own kernels, from 0 to 1; None if nothing was seen."""
    return share_of(((origin(each.name), each.duration_ns) for each in seen), KernelOrigin.OWN)


def kernels_in_words(seen: Sequence[DeviceActivity], device: str) -> str:
    """Describe the kernels that ran, or say why they are not known."""
    reason = NOTHING_RECORDED if backend(device).names_kernels else "CUPTI sees GPUs only"
    return describe_kernels(seen) if seen else f"kernels could not be listed: {reason}"


def require_custom(seen: Sequence[DeviceActivity], device: str, log: str) -> None:
    """Refuse a solution whose kernels all come from libraries and compilers; on a CPU kernels have no names."""
    if not backend(device).names_kernels:
        return
    words = kernels_in_words(seen, device)
    if not seen:
        raise RefusalError(Status.NOT_VERIFIED, words, log)
    if not own_share(seen):
        raise RefusalError(Status.LIBRARY_ONLY, f"no kernel of the solution's own ran: {words}", log)


def profile_judged(trial: Trial) -> tuple[DeviceActivity, ...]:
    """Profile one call on fresh inputs, and check its outputs like those of any call. Raises RefusalError."""
    if not backend(trial.reference.device).names_kernels:
        return ()
    seen, slot, expected = _profiled(trial)
    trial.judge_values(slot, expected)
    return seen


def profile_warm(trial: Trial) -> tuple[DeviceActivity, ...]:
    """Profile one call after a few others; its values are not judged. Raises RefusalError."""
    for _ in range(WARM_UPS):
        trial.call([trial.reference.expect(trial.arguments())])
    return _profiled(trial)[0]


def _profiled(trial: Trial) -> tuple[tuple[DeviceActivity, ...], int, Expected]:
    """Profile one call on fresh inputs; return also the slot with its results, and the expected ones."""
    expected = trial.reference.expect(trial.arguments())
    slot = secrets.randbelow(trial.arena.count)
    trial.fill([slot], [expected])
    candidate, device = trial.candidate, backend(trial.reference.device)
    device.synchronize()
    answer = candidate.ask({"op": "profile", "slot": slot}, timeout_s=REQUEST_TIMEOUT_S + candidate.limit_s)
    with candidate.understood():
        listed, (described,) = activities(answer.get("activities")), list_of(answer, "outputs", 1)
    trial.keep_scalars(slot, candidate.check_outputs(described, expected))
    return listed, slot, expected
