"""Options from flags, settings and defaults, in this order."""

from pathlib import Path

import pytest

from kbench.core.errors import UsageError
from kbench.core.events import MeasuringOptions, RunOptions
from kbench.core.levels import Level
from kbench.devices.selection import DeviceChoice
from kbench.engine.options import fit_to, options_from
from kbench.storage.settings import Settings


def test_without_settings_the_defaults_hold():
    assert options_from(Settings()) == RunOptions()


def test_settings_hold_where_nothing_is_given():
    run = MeasuringOptions(processes=5, mode="warm", budget_s=3.0, precision=0.01, call_timeout_s=7.0)
    settings = Settings(run=run, level="general", accept=("strides",), results=Path("/r"))
    found = options_from(settings, mode=None, processes=4, precision=0.002)
    assert found == RunOptions(
        processes=4,
        mode="warm",
        budget_s=3.0,
        precision=0.002,
        call_timeout_s=7.0,
        level=Level.GENERAL,
        accept=("strides",),
        results_dir=Path("/r"),
    )


@pytest.mark.parametrize("asked", [{"backward": True}, {"cases": ("small+backward",)}])
def test_graphs_are_of_forward_only(asked):
    cpu = DeviceChoice(kind="cpu", name="cpu", uuid="", key="cpu")
    with pytest.raises(UsageError, match="`--mode graph` records forward passes only"):
        fit_to(RunOptions(mode="graph", **asked), cpu)
