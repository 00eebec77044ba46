"""The judge's first steps: its device is opened in a thread while the judge's own modules are imported."""

import importlib

from kbench.judge.opening import opening
from kbench.process.channel import Channel, Message
from kbench.process.child import Child


def serve(channel: Channel, config: Message, nursery: Child) -> None:
    """Serve the parent at the other end; workers are forks of the nursery, which is this process's own child."""
    opens = opening(config)
    importlib.import_module("kbench.judge.main").serve(channel, config, nursery, opens)
