"""Admission to a device: a lock for verifying or timing, and room in its memory.

Processes queue, and are admitted in the order of arrival. A process reserves memory first and takes the lock second,
one of each at a time; another order is an error and not a deadlock. See docs/adr/0022-sharing-a-device.md.
"""

import contextlib
import getpass
import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import InternalError, MachineError
from kbench.devices.claims import Claim, ClaimKind, ClaimQueue, QueuePlace
from kbench.devices.shared_folder import guarded


class DeviceBusyError(Exception):
    """Other processes used the device for longer than the caller waits."""

    def __init__(self, holder: str):
        super().__init__(f"the device is held by {holder}")
        self.holder = holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A caller's wait while others use the device: its limit, and the reports of their names."""

    timeout_s: float | None = None
    """Time until DeviceBusyError; None waits without a limit, 0 not at all."""
    on_wait: Callable[[str], None] | None = None
    """Called with the holder's name when the wait begins, unless `timeout_s` is 0. An exception ends the wait."""
    again_s: float | None = None
    """Seconds between calls of `on_wait`; None calls it once."""


class Patience:
    """One wait that has begun."""

    def __init__(self, wait: Wait):
        self._wait = wait
        self._began_s = time.monotonic()
        self._due_s = -math.inf

    @property
    def waited_s(self) -> float:
        """Time since the wait began."""
        return time.monotonic() - self._began_s

    @property
    def left_s(self) -> float:
        """Time until the wait is given up."""
        return float("inf") if self._wait.timeout_s is None else self._wait.timeout_s - self.waited_s

    def report(self, holder: str) -> None:
        """Report the holder, if a report is due. Raises DeviceBusyError when the time is over."""
        if self.left_s <= 0:
            raise DeviceBusyError(holder)
        if self._wait.on_wait is not None and time.monotonic() >= self._due_s:
            again_s = self._wait.again_s
            self._due_s = math.inf if again_s is None else time.monotonic() + again_s
            self._wait.on_wait(holder)


POLL_S = 0.05
POLL_SHARE = 0.02
"""Chosen. Poll interval as a share of the waiting time, 50 ms at most: each poll wakes a processor."""
RECOUNT_S = 0.5
"""Chosen. Interval between counts of the claims: a killed process changes no folder."""

PATIENTLY = Wait()
LOCKS = (ClaimKind.SHARED, ClaimKind.EXCLUSIVE)

Blocking = Callable[[list[QueuePlace]], list[QueuePlace]]
"""Selects the earlier claims that must end first."""

_own: "weakref.WeakValueDictionary[str, Claim]" = weakref.WeakValueDictionary()
"""Claims of this process, held or waiting: `lock` and `memory`."""


def leases() -> Path:
    """Return the folder of the queues: KBENCH_LEASES, else one for all users, which workers cannot see (Landlock)."""
    shared = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp", "kbench-leases")  # noqa: S108
    return Path(os.environ.get("KBENCH_LEASES") or shared).absolute()


def in_use(uuid: str) -> bool:
    """Return whether any kbench process holds or waits for a device."""
    try:
        return bool(ClaimQueue(leases() / uuid.replace("/", "_")).places())
    except (OSError, MachineError):
        return False


def others_using(uuid: str) -> str:
    """Name the other commands that hold or wait for a device; empty if there are none."""
    queue = ClaimQueue(leases() / uuid.replace("/", "_"))
    try:
        others = [place for place in queue.places() if not queue.describe([place]).startswith(signature())]
        return queue.describe(others) if others else ""
    except (OSError, MachineError):
        return ""


def signature() -> str:
    """Return the command of this process, as others see it that wait. A judge has its parent's."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name  # `python -m kbench`
    command = " ".join([name, *sys.argv[1:]])
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"pid {os.getpid()} ({user}): {command if len(command) <= 80 else f'{command[:79]}…'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Access of this process to one device, shared with every other kbench process on this machine.

    Methods raise DeviceBusyError when the time of their `wait` is over, InternalError if this process might wait for
    itself, MachineError if the folder cannot be used.
    """

    uuid: str
    signature: str = field(default_factory=signature)
    """Name of this process in the reports of waiting processes."""
    folder: Path = field(default_factory=leases)

    @contextlib.contextmanager
    def shared(self, wait: Wait = PATIENTLY) -> Iterator[None]:
        """Use the device beside others, for verifying and rehearsing; no process times meanwhile."""
        with self._admitted(ClaimKind.SHARED, 0, lambda earlier: _of(earlier, ClaimKind.EXCLUSIVE), wait):
            yield

    @contextlib.contextmanager
    def exclusive(self, wait: Wait = PATIENTLY) -> Iterator[None]:
        """Use the device alone, for timing; not within `shared`."""
        with self._admitted(ClaimKind.EXCLUSIVE, 0, lambda earlier: _of(earlier, *LOCKS), wait):
            yield

    def is_wanted(self) -> bool:
        """Return whether any process uses the device alone or waits for that; within `shared` it waits."""
        queue = self._queue()
        with guarded(queue.folder, Patience(PATIENTLY).report):
            return any(place.kind is ClaimKind.EXCLUSIVE for place in queue.places())

    @contextlib.contextmanager
    def reserve(self, need_bytes: int, capacity_bytes: int, wait: Wait = PATIENTLY) -> Iterator["Reservation"]:
        """Reserve device memory before it is allocated, while no lock is held.

        Waits until it fits `capacity_bytes` together with all earlier claims, or until there is no earlier one. Raises
        ValueError for negative bytes.
        """
        if need_bytes < 0:
            raise ValueError(f"{need_bytes} bytes cannot be reserved")

        def too_much(earlier: list[QueuePlace]) -> list[QueuePlace]:
            ahead = _of(earlier, ClaimKind.MEMORY)
            return [] if _fits(ahead, need_bytes, capacity_bytes) else ahead

        with self._admitted(ClaimKind.MEMORY, need_bytes, too_much, wait) as claim:
            yield Reservation(self._queue(), claim, capacity_bytes)

    def _queue(self) -> ClaimQueue:
        return ClaimQueue(self.folder / self.uuid.replace("/", "_"))

    @contextlib.contextmanager
    def _admitted(self, kind: ClaimKind, need_bytes: int, blocking: Blocking, wait: Wait) -> Iterator[Claim]:
        queue, patience = self._queue(), Patience(wait)
        claim: Claim | None = None
        try:
            while claim is None or not claim.is_there:  # the folder was removed: queue in the new one
                with guarded(queue.folder, patience.report):
                    if claim is not None:
                        claim.release()
                    _refuse_deadlock(kind)
                    claim = queue.enter(kind, need_bytes, self.signature)
                    _own["lock" if kind in LOCKS else "memory"] = claim
                _wait(queue, claim, blocking, patience)
            yield claim
        finally:
            if claim is not None:
                claim.release()


class Reservation:
    """Device memory that this process may allocate until the `with` block ends."""

    def __init__(self, queue: ClaimQueue, claim: Claim, capacity_bytes: int):
        self._queue = queue
        self._claim = claim
        self._capacity_bytes = capacity_bytes

    def is_in_the_way(self) -> bool:
        """Return whether a later claim waits for memory, without waiting; False if the folder cannot be read."""
        try:
            with guarded(self._queue.folder, Patience(Wait(timeout_s=0.0)).report):
                claims = _of(self._queue.places(), ClaimKind.MEMORY)
        except (DeviceBusyError, MachineError, OSError):
            return False
        later = [number for number, place in enumerate(claims) if place.ticket > self._claim.place.ticket]
        return not all(_fits(claims[:number], claims[number].need_bytes, self._capacity_bytes) for number in later)


def _wait(queue: ClaimQueue, claim: Claim, blocking: Blocking, patience: Patience) -> None:
    """Wait until no earlier claim blocks this one, or this one was withdrawn."""
    while claim.is_there:
        seen = queue.changed_ns()
        with guarded(queue.folder, patience.report):
            ahead = blocking([place for place in queue.places() if place.ticket < claim.place.ticket])
            if not ahead:
                claim.admit()
                return
            holder = queue.describe(ahead)
        patience.report(holder)
        until = time.monotonic() + RECOUNT_S
        while queue.changed_ns() == seen and (left_s := min(until - time.monotonic(), patience.left_s)) > 0:
            time.sleep(min(max(POLL_SHARE * patience.waited_s, 0.001), POLL_S, left_s))


def _of(places: list[QueuePlace], *kinds: ClaimKind) -> list[QueuePlace]:
    return [place for place in places if place.kind in kinds]


def _fits(others: list[QueuePlace], need_bytes: int, capacity_bytes: int) -> bool:
    """Return whether a claim fits beside others. Without others it is admitted, and the device decides."""
    return not others or sum(place.need_bytes for place in others) + need_bytes <= capacity_bytes


def _refuse_deadlock(kind: ClaimKind) -> None:
    """Raise InternalError if this process might wait for itself, or for a process that waits for it."""
    held = {name: claim.place.kind for name, claim in list(_own.items()) if claim.is_live}
    if "lock" in held:
        raise InternalError(
            f"asked for `{kind}` within `{held['lock']}`", "leave that first; memory comes before the lock"
        )
    if kind is ClaimKind.MEMORY and "memory" in held:
        raise InternalError("asked for a second reservation within the first", "end it first")


def _disown() -> None:
    """Close the parent's claims in a forked child, which must neither release nor keep them."""
    for claim in list(_own.values()):
        claim.disown()


os.register_at_fork(after_in_child=_disown)
