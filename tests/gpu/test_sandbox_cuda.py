"""The rungs on a GPU: a locked-in process maps a judge's buffer, and torch works in it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from require import WITH_CUDA
from verdicts import entries, verdicts

from kbench.core.model import Passed
from kbench.sandbox import hidden_paths, process_tree, rung_probe, rungs
from kbench.sandbox.rungs import Rung

ROOT = Path(__file__).parents[2]

pytestmark = WITH_CUDA

WORK = """
import sys
from pathlib import Path
from kbench.sandbox import rungs
rung, scratch = rungs.Rung(int(sys.argv[1])), Path(sys.argv[2])
rungs.restrict_self(rung, writable=[scratch], temporary=scratch / "tmp", allow_exec=False)
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
    assert rung_probe.works(rung, "cuda") is None


@pytest.mark.parametrize("rung", [r for r in Rung if r != Rung.NONE])
def test_torch_works_in_a_rung(rung, tmp_path):
    argv = rungs.command(rung, [sys.executable, "-c", WORK, str(int(rung)), str(tmp_path)])
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr


@pytest.mark.parametrize("rung", [r for r in Rung if r.has_namespaces])
def test_torch_works_in_a_tmp_of_its_own(rung, tmp_path):
    """And what it writes there, beside CUDA, lands in the folder that is kept."""
    (tmp_path / "tmp").mkdir()
    own = 'Path("/tmp/cuda_extensions").mkdir()\nPath("/tmp/cuda_extensions/x").write_text("x")\nprint("worked")'
    code = WORK.replace('print("worked")', own)
    around = hidden_paths.surroundings(tmp_path / "tmp", own=[tmp_path], files=[], hidden=[])
    argv = rungs.command(rung, [sys.executable, "-c", code, str(int(rung)), str(tmp_path)], around)
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr
    assert (tmp_path / "tmp" / "cuda_extensions" / "x").read_text() == "x"


FIXED_FOLDER = """
import os
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline
FOLDER = "/tmp/kbench_gpu_test_extensions"
os.makedirs(FOLDER, exist_ok=True)
CUDA = '''
#include <torch/extension.h>
__global__ void swish_kernel(const float* x, float* y, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}
torch::Tensor swish(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    swish_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
'''
EXTENSION = load_inline(name="fixed_folder_swish", cpp_sources="torch::Tensor swish(torch::Tensor x);",
                        cuda_sources=CUDA, functions=["swish"], build_directory=FOLDER)


class ModelNew(nn.Module):
    def forward(self, x):
        return EXTENSION.swish(x)
"""


@pytest.mark.slow
def test_a_kernel_that_builds_in_a_fixed_folder_is_judged(tmp_path, monkeypatch):
    """CUDA IPC, the build and the judged worker, all with a /tmp of their own."""
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "fixed.py").write_text(FIXED_FOLDER)
    found = entries(ROOT / "tests" / "kernelbench" / "25_Swish.py", tmp_path / "fixed.py")
    (judged,) = verdicts(*found, device="cuda", wait_for_device=True, results_dir=tmp_path).values()
    assert isinstance(judged.outcome, Passed), judged.outcome
    assert not Path("/tmp/kbench_gpu_test_extensions").exists()


def test_a_worker_that_holds_the_gpu_is_gone_at_once(tmp_path):
    """A tree that spins on the device dies, and its memory comes back."""
    code = WORK.replace(
        'print("worked")',
        'hog = torch.empty(4 << 30, device="cuda", dtype=torch.uint8)\nprint("ready", flush=True)\nwhile True: a @ a',
    )
    free_before, _ = torch.cuda.mem_get_info()
    argv = rungs.command(Rung.FULL, [sys.executable, "-c", code, "4", str(tmp_path)])
    child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "ready\n"
    assert torch.cuda.mem_get_info()[0] < free_before - (3 << 30)
    assert process_tree.kill_tree(child.pid) == 0
    child.wait(5)
    assert torch.cuda.mem_get_info()[0] > free_before - (1 << 30)


def test_the_highest_rung_is_probed_and_remembered(tmp_path):
    assert rung_probe.reached("cuda", tmp_path) == Rung.FULL
    assert (tmp_path / rung_probe.CACHE_NAME).is_file()
