"""The probe of a real GPU: well before, during and after what candidates do to it."""

import subprocess
import sys

import pytest
from require import WITH_CUDA
from verdicts import entries, verdicts

from kbench.core.model import Failed, Passed
from kbench.devices import selection
from kbench.host import health
from kbench.selftest.fixtures import CORPUS

pytestmark = WITH_CUDA

HOG = "import torch; a = torch.randn(8192, 8192, device='cuda'); print('ready', flush=True)\nwhile True: a @ a"


def test_a_device_that_is_well_is_fit():
    assert health.examine(selection.choose("cuda")) is None


def test_a_busy_device_is_not_taken_for_a_sick_one():
    child = subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        assert health.examine(selection.choose("cuda")) is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("name", ["kernel_traps", "writes_far_out_of_bounds", "kernel_never_ends"])
def test_crashes_and_hangs_of_candidates_leave_a_device_that_is_used_further(name):
    found = entries(CORPUS / "problems" / "relu.py", CORPUS / "cheats" / f"{name}.py", "eager")
    ends = verdicts(*found, device="cuda", wait_for_device=True)
    assert isinstance(ends[name].outcome, Failed)
    assert isinstance(ends["eager"].outcome, Passed), ends["eager"]
    assert health.examine(selection.choose("cuda")) is None
