"""Waiting for what happens a moment later, however long that takes where other programs have the processors."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait_until(holds: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "still not"
        time.sleep(0.01)
