"""Turns of builders that compute on a device: one thread at a time, and processes that time go first."""

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from kbench.devices.admission import Admission, DeviceBusyError, Wait
from kbench.process.child import Child
from kbench.process.child_error import ChildError

GOES_ON_S = 2.0
"""Chosen. Seconds that a compiler runs before it is stopped for a timing; a quick timing takes about as long."""
DRAIN_S = 0.2
"""Chosen. Seconds for the queued work of a stopped process to end on the device, unless a call takes longer itself."""
LOOKS_EVERY_S = 0.5
"""Chosen. Seconds between two checks whether a stopped build still has to go on."""


class Turn:
    """The turn of one builder out of several that share a device: only its thread puts inputs there.

    With an `admission`, no other process times while its child computes; the child is stopped (SIGSTOP) meanwhile.
    """

    def __init__(self, admission: Admission | None = None, *, whole: bool = False):
        self.whole = whole
        """True if compiling disturbs timing as computing does: on a CPU they share processors."""
        self._admission = admission
        self.taken = threading.RLock()
        self._is_computing = False

    @contextlib.contextmanager
    def computing(self, child: Child) -> Iterator[None]:
        """Let a child compute on the device, within `taken`. Raises MachineError for unusable locks."""
        if self._admission is None or self._is_computing:
            yield
            return
        with contextlib.ExitStack() as held, ThreadPoolExecutor(1) as pool:
            held.enter_context(self._admission.shared())
            over = threading.Event()
            lending = pool.submit(_lend, self._admission, child, held, over)
            self._is_computing = True
            try:
                yield
            finally:
                self._is_computing = False
                over.set()
                lending.result()


def _lend(admission: Admission, child: Child, held: contextlib.ExitStack, over: threading.Event) -> None:
    """Stop the child and let others time whenever they wait for it, until it is over."""

    def give_up(holder: str) -> None:
        if over.is_set():
            raise DeviceBusyError(holder)

    while not over.wait(GOES_ON_S):
        if not admission.is_wanted():
            continue
        # One that cannot be stopped keeps the device; one that ended meanwhile, or was killed, needs it no more.
        with contextlib.suppress(ChildError, DeviceBusyError), child.stopped(excused=True):
            time.sleep(DRAIN_S)
            held.close()
            held.enter_context(admission.shared(Wait(on_wait=give_up, again_s=LOOKS_EVERY_S)))
