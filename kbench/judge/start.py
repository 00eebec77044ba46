"""The judge's first steps: its device is opened in a thread while the judge's own modules are imported."""

import contextlib
import importlib
import threading
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.devices.admission import Admission, DeviceBusyError, Wait
from kbench.devices.backend import backend
from kbench.process.channel import Channel, Message
from kbench.process.child import Child


def opening(config: Message) -> threading.Thread | None:
    """Begin to open the device that a judge is configured for; None for a device without its own memory.

    The thread holds the lock that verifying processes share. It does nothing while another process times there.
    """
    device = backend(config["device"])
    if not device.has_own_memory:
        return None
    admission = Admission(uuid=config["uuid"], signature=config["holder"], folder=Path(config["leases"]))

    def opens() -> None:
        with contextlib.suppress(DeviceBusyError, MachineError, OSError), contextlib.ExitStack() as lease:
            if config["uuid"]:
                lease.enter_context(admission.shared(Wait(timeout_s=0.0)))
            device.open_ahead()

    thread = threading.Thread(target=opens, daemon=True)
    thread.start()
    return thread


def serve(channel: Channel, config: Message, nursery: Child) -> None:
    """Serve the parent at the other end; workers are forks of the nursery, which is this process's own child."""
    opens = opening(config)
    importlib.import_module("kbench.judge.main").serve(channel, config, nursery, opens)
