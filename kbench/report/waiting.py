"""The line that says who uses the device that a command waits for."""

from kbench.core.events import Waiting
from kbench.report.table import one_line


def render_waiting(event: Waiting) -> str:
    """Write who is waited for: `waiting for NVIDIA H200, in use by pid 812 (ann): kbench run group_norm`."""
    return f"waiting for {event.device}, in use by {one_line(event.holder)}"
