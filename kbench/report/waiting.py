"""Lines for those who wait: who uses the device, and how long it may take."""

from kbench.core.events import Waiting
from kbench.report import units
from kbench.report.table import one_line


def render_waiting(event: Waiting) -> str:
    """Write who is waited for: `waiting for NVIDIA H200, in use by pid 812 (ann): kbench run group_norm`."""
    return f"waiting for {event.device}, in use by {one_line(event.holder)}"


def render_left(done: int, total: int, elapsed_s: float) -> str:
    """Estimate the time left from the pace so far: `about 6 min 10 s left`; empty as long as nothing is done."""
    return f"about {units.seconds(elapsed_s / done * (total - done))} left" if done else ""
