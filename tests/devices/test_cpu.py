"""The first calls of MKL's vector functions on a processor."""

import os
import subprocess
import sys

FIRST_CALLS = """
import os, numpy, torch
from kbench.devices.backend import backend

x = torch.from_numpy(numpy.linspace(0.01, 0.3, 82_944, dtype="float32"))
backend("cpu").settle()
for _ in range(60):
    if not (child := os.fork()):
        torch.mm(torch.ones(288, 288), torch.ones(288, 288))  # starts the threads
        os._exit(not torch.equal(torch.tanh(x), torch.tanh(x)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_two_threads_make_the_first_call_of_a_vector_function_as_one_would() -> None:
    """Without `settle` 8 of 300 first calls of `tanh` differed from the second: this script with more processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["0"] * 60
