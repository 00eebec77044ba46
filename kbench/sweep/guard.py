"""The health of one device during a sweep: checked after each crash, put back into service, or quarantined."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from kbench.core.health import PROBED_AFTER
from kbench.core.model import Status
from kbench.devices.selection import DeviceChoice
from kbench.host import health
from kbench.host.health import Watch
from kbench.storage import quarantine

WAITS_S = (0.0, 5.0, 20.0)
"""Chosen. After the contexts of all judges and workers ended, a driver may take some seconds to recover the device."""


class Guard(Watch):
    """A Watch for several lanes: a device that fails a probe is suspect until its lanes are empty.

    Then it is probed again, and goes back into service or is quarantined.
    """

    def __init__(self, device: DeviceChoice, cache_dir: Path, *, sleep: Callable[[float], None] = time.sleep):
        super().__init__(device, cache_dir)
        self.device = device
        self.suspect = ""
        """Why nothing is started on it now; empty for a healthy device."""
        self._sleep = sleep
        self._looking = threading.Lock()

    def is_suspect(self) -> bool:
        """Whether nothing may be started on it now."""
        return bool(self.suspect)

    def look(self, status: Status) -> None:
        """Probe the device after a status that may have damaged it."""
        if status not in PROBED_AFTER or self.quarantine is not None:
            return
        with self._looking:
            if not self.suspect:
                self.suspect = self._examine() or ""

    def recover(self) -> bool:
        """Probe again, with no process of kbench on the device; return whether it is back in service."""
        with self._looking:
            reason = self.suspect
            for wait_s in WAITS_S:
                self._sleep(wait_s)
                found = self._examine()
                if found is None:
                    self.suspect = ""
                    return True
                reason = self.suspect = found
            device = self.device
            self.quarantine = quarantine.impose(self._cache_dir, uuid=device.uuid, name=device.name, reason=reason)
            return False

    def _examine(self) -> str | None:
        return health.examine(self.device, self._before)
