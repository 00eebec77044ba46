"""Kernels of one call of a solution, as its worker's profiler lists them.

The list comes from the worker and is evidence, not proof: a solution could forge it. It decides `--require-custom`
only, and no time rests on it.
"""

from dataclasses import dataclass

from kbench.core.kernel_names import KernelOrigin, describe_kernels, origin, share_of
from kbench.core.model import Status
from kbench.core.ranges import LARGEST
from kbench.core.trace import LONGEST_NAME, DeviceActivity
from kbench.devices.backend import backend
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.process.channel import WireError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Kernels that one call launched, or the reason why they are not known."""

    seen: tuple[DeviceActivity, ...]
    device: str
    reason: str = ""
    log: str = ""

    @property
    def own_share(self) -> float | None:
        """Share of the time in the solution's own kernels, from 0 to 1; None if nothing was seen."""
        return share_of(((origin(each.name), each.duration_ns) for each in self.seen), KernelOrigin.OWN)

    @property
    def kernels(self) -> str:
        """The kernels that ran in words, or the reason why they are not known."""
        return describe_kernels(self.seen) if self.seen else f"kernels could not be listed: {self.reason}"

    def require_custom(self) -> None:
        """Refuse a solution whose kernels all come from libraries and compilers; on a CPU kernels have no names."""
        if not backend(self.device).names_kernels:
            return
        if not self.seen:
            raise RefusalError(Status.NOT_VERIFIED, self.kernels, self.log)
        if not self.own_share:
            raise RefusalError(Status.LIBRARY_ONLY, f"no kernel of the solution's own ran: {self.kernels}", self.log)


def take_profile(trial: Trial, device: str) -> Profile:
    """Profile one call on fresh inputs, and check its outputs like those of any call. Raises RefusalError."""
    if not backend(device).names_kernels:
        return Profile(seen=(), device=device, reason="CUPTI sees GPUs only")
    profile, slot, expected = _profiled(trial, device)
    trial.judge_values(slot, expected)
    return profile


def list_kernels(trial: Trial, device: str) -> Profile:
    """Profile one call after a few others; its values are not judged. Raises RefusalError."""
    for _ in range(WARM_UPS):
        trial.call([trial.reference.expect(trial.arguments(secret_seed()))])
    profile, _, _ = _profiled(trial, device)
    return profile


def _profiled(trial: Trial, device: str) -> tuple[Profile, int, Expected]:
    """Profile one call on fresh inputs; return also the slot with its results, and the expected ones."""
    expected = trial.reference.expect(trial.arguments(secret_seed()))
    slot = trial.arena.random_slot()
    trial.fill([slot], [expected])
    listed, numbers = trial.candidate.profile(slot, expected)
    trial.keep_scalars(slot, numbers)
    with trial.candidate.understood():
        seen = activities(listed)
    return Profile(seen=seen, device=device, reason=NOTHING_RECORDED, log=trial.candidate.log), slot, expected
