"""Which accesses in order compute-sanitizer's racecheck takes for a race, without kbench: two warps and one slot."""

import re
import shutil
import subprocess

import pytest
import torch
from require import WITH_CUDA

from kbench.build import toolkit

pytestmark = [
    *WITH_CUDA,
    pytest.mark.skipif(toolkit.find("compute-sanitizer") is None, reason="needs compute-sanitizer"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
]

PROBE = r"""
#include <cstdint>
#include <cstdlib>
__device__ uint32_t address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(b)), "r"(n));
}
__device__ void arrive(uint64_t* b) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0];}" ::"r"(address(b)) : "memory");
}
__device__ void wait(uint64_t* b, int parity) {
  asm volatile("{.reg .pred p; A: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra B; bra A; B:}"
               ::"r"(address(b)), "r"(parity) : "memory");
}
enum Order { EVERY_THREAD, ONE_LANE, NAMED_BARRIER, NONE };
template <Order ORDER>
__global__ void hand_over(float* out, int rounds) {
  __shared__ float slot[32];
  __shared__ uint64_t full, empty;
  const int lane = threadIdx.x % 32;
  const bool producer = threadIdx.x < 32;
  if (threadIdx.x == 0) {
    init(&full, ORDER == EVERY_THREAD ? 32 : 1);
    init(&empty, ORDER == EVERY_THREAD ? 32 : 1);
  }
  __syncthreads();
  const auto tell = [&](uint64_t* barrier) {
    if (ORDER == ONE_LANE) __syncwarp();
    if (ORDER == EVERY_THREAD || (ORDER == ONE_LANE && lane == 0)) arrive(barrier);
  };
  constexpr bool WAITS = ORDER == EVERY_THREAD || ORDER == ONE_LANE;
  float sum = 0;
  for (int i = 0; i < rounds; ++i) {
    if (producer) {
      if (ORDER == NAMED_BARRIER) asm volatile("bar.sync 2, 64;" ::: "memory");
      if (WAITS) wait(&empty, (i & 1) ^ 1);
      slot[lane] = float(i + lane);
      tell(&full);
      if (ORDER == NAMED_BARRIER) asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      if (ORDER == NAMED_BARRIER) asm volatile("bar.arrive 2, 64;\n bar.sync 1, 64;" ::: "memory");
      if (WAITS) wait(&full, i & 1);
      sum += slot[(lane + 7) % 32];
      tell(&empty);
    }
  }
  if (!producer) out[lane] = sum;
}
int main(int, char** words) {
  float* out;
  cudaMalloc(&out, 128);
  const auto kernels = {hand_over<EVERY_THREAD>, hand_over<ONE_LANE>, hand_over<NAMED_BARRIER>, hand_over<NONE>};
  kernels.begin()[atoi(words[1])]<<<1, 64>>>(out, 9);
  return cudaDeviceSynchronize() != cudaSuccess;
}
"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Build the program once."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("it waits at mbarriers as of Hopper")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.cu").write_text(PROBE)
    subprocess.run(["nvcc", "-arch=native", "-o", "probe", "probe.cu"], cwd=folder, check=True)
    return folder / "probe"


@pytest.mark.parametrize(
    ("order", "errors"),
    [
        pytest.param(0, False, id="every thread arrives at an mbarrier"),
        pytest.param(1, True, id="one lane arrives for its warp, after __syncwarp"),
        pytest.param(2, True, id="bar.arrive on one side, bar.sync on the other"),
        pytest.param(3, True, id="nothing orders them, a race indeed"),
    ],
)
def test_racecheck_follows_a_barrier_only_where_every_thread_arrives(probe, order, errors) -> None:
    tool = toolkit.find("compute-sanitizer")
    done = subprocess.run(
        [str(tool), "--tool", "racecheck", str(probe), str(order)], capture_output=True, text=True, check=True
    )
    found = re.search(r"RACECHECK SUMMARY: .*\((\d+) errors?", done.stdout)
    assert found is not None, done.stdout
    assert (int(found[1]) > 0) is errors
