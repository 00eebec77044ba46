"""What all processes that a run starts have in common."""

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
    """Of the sandbox."""
    scratch: Path
    """Temporary folder, which its processes cannot read except for their own parts."""
