"""The health of one device while it is used: checked after each crash, put back into service, or used no more."""

import threading
import time
from collections.abc import Callable

from kbench.core.model import Status
from kbench.devices.selection import DeviceChoice
from kbench.engine.task import DeviceState, Report
from kbench.host import health

WAITS_S = (0.0, 5.0, 20.0)
"""Chosen. After the contexts of all judges and workers ended, a driver may take some seconds to recover the device."""


class Guard:
    """Watches a device. One that fails a probe is suspect until its lanes are empty, and is then probed again."""

    def __init__(self, device: DeviceChoice, report: Report = lambda _event: None):
        self.device, self.report = device, report
        """Takes the events of the device and of its lanes, from any thread."""
        self.gone = ""
        """Why the device is used no more."""
        self.interrupts: list[Callable[[], None]] = []
        """Kills of the judges of its lanes."""
        self.incidents = 0
        """Number of times that the device was suspect."""
        self.suspect = ""
        """Why nothing is started on it now; empty for a healthy device."""
        self._looking = threading.Lock()

    def look(self, status: Status) -> None:
        """Probe the device after a status that may have damaged it."""
        if status not in health.PROBED_AFTER or self.gone:
            return
        with self._looking:
            if not self.suspect:
                self.suspect = health.examine(self.device) or ""

    def is_fit(self) -> bool:
        """Return whether the device may be used, after a second probe if it is suspect."""
        if self.suspect:
            with self._looking:
                if self.suspect and not self.gone:  # else another lane did it
                    self._recover()
        return not self.gone

    def interrupt(self) -> None:
        """Kill all judges of its lanes."""
        for interrupt in self.interrupts:
            interrupt()

    def _recover(self) -> None:
        """Probe again, with no process of kbench on the device: it is back in service, or gone."""
        self.incidents += 1
        reason = self.suspect
        self._say("suspect", reason)
        self.interrupt()
        for wait_s in WAITS_S:
            time.sleep(wait_s)
            found = health.examine(self.device)
            if found is None:
                self.suspect = ""
                self._say("back in service", reason)
                return
            self.suspect = found
        self.gone = f"{self.device.name}: {self.suspect}"
        self._say("out of service", self.suspect)

    def _say(self, state: str, reason: str) -> None:
        self.report(DeviceState(device=self.device.uuid, state=state, reason=reason))
