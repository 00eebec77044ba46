"""The judge's first steps: its device is opened in a thread while the judge's own modules are imported."""

import contextlib
import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from kbench.children.child import Child
from kbench.core.errors import MachineError
from kbench.devices.admission import Admission, DeviceBusyError, Wait
from kbench.devices.backend import backend
from kbench.wire.channel import Channel, Message


class DeviceOpening:
    """Opens a device in a thread, unless somebody times there: under the lock that all share who verify."""

    def __init__(self, device: str, admission: Admission | None):
        self._device = device
        self._admission = admission
        self._admitted: Future[bool] = Future()
        self._rest: Future[Callable[[], None]] = Future()
        self._thread = threading.Thread(target=self._open, daemon=True)
        self._thread.start()

    def _open(self) -> None:
        with contextlib.ExitStack() as lease:
            admitted = False
            try:
                if self._admission is not None:
                    lease.enter_context(self._admission.shared(Wait(timeout_s=0.0)))
                admitted = True
            except (DeviceBusyError, MachineError, OSError):
                return
            finally:
                self._admitted.set_result(admitted)  # whatever went wrong, nobody waits for it
            backend(self._device).open_ahead()
            self._rest.result()()

    def go_on(self, beside: Callable[[], None], rest: Callable[[], None]) -> None:
        """Do something `beside`, if the lock was got, and have the thread do the `rest` before it gives that back."""
        if self._admitted.result():
            beside()
        self._rest.set_result(rest)

    def join(self) -> None:
        """Wait until the thread has ended: it holds the lock, and a process may ask for one at a time."""
        self._thread.join()


def opening(config: Message) -> DeviceOpening | None:
    """Begin to open the device that a judge is configured for; None where there is nothing to open."""
    if not backend(config["device"]).has_own_memory:
        return None
    admission = Admission(uuid=config["uuid"], signature=config["holder"], folder=Path(config["leases"]))
    return DeviceOpening(config["device"], admission if config["uuid"] else None)


def serve(channel: Channel, config: Message, nursery: Child) -> None:
    """Serve the parent at the other end; workers are forks of the nursery, which is this process's own child."""
    opens = opening(config)
    importlib.import_module("kbench.judge.main").serve(channel, config, nursery, opens)
