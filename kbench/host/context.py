"""Settings that all processes of a run share."""

from dataclasses import dataclass
from pathlib import Path

from kbench.core.events import RunOptions
from kbench.devices.selection import DeviceChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The options, the device and the sandbox of a run."""

    options: RunOptions
    device: DeviceChoice
    rung: int
    """The rung of the sandbox."""
    scratch: Path
    """Temporary folder, which its processes cannot read except for their own parts."""
