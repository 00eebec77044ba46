"""The judge's first steps: its device is opened in a thread while the judge's own modules are imported."""

import contextlib
import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.devices.admission import Admission, DeviceBusyError, Wait
from kbench.devices.backend import backend
from kbench.process.channel import Channel, Message
from kbench.process.child import Child


class DeviceOpening:
    """Opens a device in a thread, unless another process times there: under the lock that verifying processes share."""

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
                self._admitted.set_result(admitted)  # also after an error, so that nobody waits
            backend(self._device).open_ahead()
            self._rest.result()()

    def proceed(self, beside: Callable[[], None], rest: Callable[[], None]) -> None:
        """Do something `beside` if the thread has the lock; the thread does the `rest` before it releases the lock."""
        if self._admitted.result():
            beside()
        self._rest.set_result(rest)

    def join(self) -> None:
        """Wait until the thread has ended: it holds the lock, and a process may hold one only."""
        self._thread.join()


def opening(config: Message) -> DeviceOpening | None:
    """Begin to open the device that a judge is configured for; None for a device without its own memory."""
    if not backend(config["device"]).has_own_memory:
        return None
    admission = Admission(uuid=config["uuid"], signature=config["holder"], folder=Path(config["leases"]))
    return DeviceOpening(config["device"], admission if config["uuid"] else None)


def serve(channel: Channel, config: Message, nursery: Child) -> None:
    """Serve the parent at the other end; workers are forks of the nursery, which is this process's own child."""
    opens = opening(config)
    importlib.import_module("kbench.judge.main").serve(channel, config, nursery, opens)
