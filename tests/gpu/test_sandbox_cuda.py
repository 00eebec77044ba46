"""The rungs on a GPU: a locked-in process maps a judge's buffer, and torch works in it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kbench.isolation import probing, sandbox
from kbench.isolation.sandbox import Rung

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

WORK = """
import sys
from pathlib import Path
from kbench.isolation import sandbox
rung, scratch = sandbox.Rung(int(sys.argv[1])), Path(sys.argv[2])
sandbox.restrict_self(rung, writable=[scratch], allow_exec=False)
import torch
torch.manual_seed(0)
a = torch.randn(512, 512, device="cuda")
conv = torch.nn.Conv2d(8, 16, 3, device="cuda")
out = conv(torch.randn(4, 8, 32, 32, device="cuda"))
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    b = a @ a
side.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    c = b + 1
graph.replay()
host = torch.randn(1 << 20, pin_memory=True).to("cuda", non_blocking=True)
torch.cuda.synchronize()
torch.testing.assert_close(b.cpu(), a.cpu() @ a.cpu(), rtol=1e-2, atol=1e-2)
assert out.isfinite().all() and c.isfinite().all() and host.isfinite().all()
print("worked")
"""


@pytest.mark.parametrize("rung", [r for r in Rung if r != Rung.NONE])
def test_a_rung_lets_cuda_ipc_through(rung):
    assert probing.works(rung, "cuda") is None


@pytest.mark.parametrize("rung", [r for r in Rung if r != Rung.NONE])
def test_torch_works_in_a_rung(rung, tmp_path):
    argv = sandbox.command(rung, [sys.executable, "-c", WORK, str(int(rung)), str(tmp_path)])
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr


def test_a_worker_that_holds_the_gpu_is_gone_at_once(tmp_path):
    """A tree that spins on the device dies, and its memory comes back."""
    code = WORK.replace(
        'print("worked")',
        'hog = torch.empty(4 << 30, device="cuda", dtype=torch.uint8)\nprint("ready", flush=True)\nwhile True: a @ a',
    )
    free_before, _ = torch.cuda.mem_get_info()
    argv = sandbox.command(Rung.FULL, [sys.executable, "-c", code, "4", str(tmp_path)])
    child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "ready\n"
    assert torch.cuda.mem_get_info()[0] < free_before - (3 << 30)
    assert sandbox.kill_tree(child.pid) == 0
    child.wait(5)
    assert torch.cuda.mem_get_info()[0] > free_before - (1 << 30)


def test_the_highest_rung_is_probed_and_remembered(tmp_path):
    assert sandbox.probe("cuda", tmp_path) == Rung.FULL
    assert (tmp_path / probing.CACHE_NAME).is_file()
