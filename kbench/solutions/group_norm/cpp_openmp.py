"""C++ with OpenMP: groups in parallel, statistics in one sweep, mean taken off before scaling, streaming stores.

Each group is cut into blocks of 4096 values. A block sums the deviations from the mean of the blocks before it, and
their squares; the blocks merge in double precision (Chan, Golub and LeVeque, 1979). No power of a raw value is ever
summed, so an offset of many standard deviations does no harm. The normalising pass subtracts the mean in two parts,
which keeps its rounding error below that of x * scale + shift. A large output is written past the caches: an ordinary
store first reads the line that it overwrites, a third of all traffic.

The backward is torch's, on the statistics saved here (see kbench.kernels.group_norm).
"""

import math

import torch
from torch import Tensor, nn

from kbench.kernels import native
from kbench.kernels.group_norm import group_norm

DEVICES = ("cpu",)

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <omp.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace {

constexpr int64_t BLOCK = 4096;
constexpr int LANES = 64;  // independent sums: one chain of additions would wait for itself
constexpr int LINE = 16;   // values in a cache line
constexpr uintptr_t CACHE_LINE_BYTES = 64;
constexpr int64_t STREAMED_BYTES = int64_t(16) << 20;  // an output that is larger than most caches of a core
constexpr uintptr_t HUGE_PAGE_BYTES = uintptr_t(1) << 21;

// A large output is fresh memory: touching it first in 4 KB pages costs several times the kernel's own time.
// Only advice, and only for whole huge pages inside the buffer, so failure and partial pages need no care.
void ask_for_huge_pages(float* y, int64_t bytes) {
  const uintptr_t begin = (uintptr_t(y) + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
  const uintptr_t end = (uintptr_t(y) + uintptr_t(bytes)) & ~(HUGE_PAGE_BYTES - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Count, mean and sum of squared deviations of a set of values.
struct Moments {
  double count = 0, mean = 0, m2 = 0;

  void merge(const Moments& other) {
    if (other.count == 0) return;
    const double total = count + other.count, delta = other.mean - mean;
    mean += delta * (other.count / total);
    m2 += other.m2 + delta * delta * (count * other.count / total);
    count = total;
  }
};

// The moments of a block in one sweep, from deviations from `centre`, which lies near the block's mean.
Moments block_moments(const float* x, int64_t count, float centre) {
  float sums[LANES] = {}, squares[LANES] = {};
  for (int64_t begin = 0; begin < count; begin += LANES) {
    const int lanes = count - begin < LANES ? int(count - begin) : LANES;
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) {
      const float deviation = x[begin + lane] - centre;
      sums[lane] += deviation;
      squares[lane] += deviation * deviation;
    }
  }
  double sum = 0, m2 = 0;
  for (int lane = 0; lane < LANES; ++lane) sum += sums[lane], m2 += squares[lane];
  const double shift = sum / double(count);
  return {double(count), double(centre) + shift, m2 - shift * sum};
}

// With `split`, the threads share the blocks of one group; otherwise the caller is itself one of many.
Moments group_moments(const float* x, int64_t count, bool split) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
  Moments total;
#pragma omp parallel if (split)
  {
    Moments mine;
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = b * BLOCK, rest = count - begin;
      const float centre = mine.count > 0 ? float(mine.mean) : x[begin];
      mine.merge(block_moments(x + begin, rest < BLOCK ? rest : BLOCK, centre));
    }
#pragma omp critical(kbench_group_norm_merge)
    total.merge(mine);
  }
  return total;
}

// y = (x - mean) * scale + shift. With `stream`, whole cache lines of y are written without being read first.
void normalise(const float* x, float* y, int64_t count, float mean, float scale, float shift, bool stream) {
  int64_t i = 0;
#ifdef __SSE2__
  if (stream) {
    for (; i < count && uintptr_t(y + i) % CACHE_LINE_BYTES != 0; ++i) y[i] = (x[i] - mean) * scale + shift;
    for (; i + LINE <= count; i += LINE) {
      alignas(CACHE_LINE_BYTES) float line[LINE];
#pragma omp simd
      for (int lane = 0; lane < LINE; ++lane) line[lane] = (x[i + lane] - mean) * scale + shift;
      for (int lane = 0; lane < LINE; lane += 4) _mm_stream_ps(y + i + lane, _mm_load_ps(line + lane));
    }
    _mm_sfence();
  }
#endif
#pragma omp simd
  for (int64_t rest = i; rest < count; ++rest) y[rest] = (x[rest] - mean) * scale + shift;
}

void one_group(const float* x, float* y, const float* gamma, const float* beta, float* mean, float* rstd,
               int64_t channels, int64_t spatial, double eps, bool split, bool stream) {
  const Moments moments = group_moments(x, channels * spatial, split);
  const float mean_high = float(moments.mean);
  const double mean_low = moments.mean - double(mean_high);
  const double inverse_std = 1.0 / std::sqrt(moments.m2 / moments.count + eps);
  *mean = mean_high;
  *rstd = float(inverse_std);
#pragma omp parallel for if (split) schedule(static)
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = double(gamma[c]) * inverse_std;
    const double shift = double(beta[c]) - mean_low * scale;
    normalise(x + c * spatial, y + c * spatial, spatial, mean_high, float(scale), float(shift), stream);
  }
}

}  // namespace

// x, y: (batch, groups * channels_per_group, spatial); gamma, beta: per channel; mean, rstd: (batch, groups).
extern "C" int kbench_group_norm_cpu(const float* x, float* y, const float* gamma, const float* beta,
                                     float* mean, float* rstd, int64_t batch, int64_t groups,
                                     int64_t channels_per_group, int64_t spatial, double eps) {
  const int64_t rows = batch * groups, row_size = channels_per_group * spatial;
  const int64_t bytes = rows * row_size * int64_t(sizeof(float));
  const bool split_rows = rows < omp_get_max_threads(), stream = bytes >= STREAMED_BYTES;
  ask_for_huge_pages(y, bytes);
#pragma omp parallel for if (!split_rows) schedule(dynamic, 1)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t channel = (row % groups) * channels_per_group;
    one_group(x + row * row_size, y + row * row_size, gamma + channel, beta + channel, mean + row, rstd + row,
              channels_per_group, spatial, eps, split_rows, stream);
  }
  return 0;
}
"""

SIGNATURES = {"kbench_group_norm_cpu": (native.POINTER,) * 6 + (native.INT64,) * 4 + (native.FLOAT64,)}

LIBRARY = native.load_cpu_inline("kbench_group_norm_cpp_openmp", SOURCE, SIGNATURES)


def forward_kernel(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Run the C++ kernel on a contiguous CPU tensor (batch, channels, *); returns y, mean and rstd."""
    batch, channels = x.shape[:2]
    y = torch.empty_like(x)
    mean, rstd = x.new_empty(batch, groups), x.new_empty(batch, groups)
    if x.numel() > 0:
        tensors = (x, y, gamma, beta, mean, rstd)
        sizes = (batch, groups, channels // groups, math.prod(x.shape[2:]))
        LIBRARY.call("kbench_group_norm_cpu", *(tensor.data_ptr() for tensor in tensors), *sizes, eps)
    return y, mean, rstd


class ModelNew(nn.Module):
    """GroupNorm on the CPU by the C++ kernel."""

    def __init__(self, num_features: int, num_groups: int):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x: Tensor) -> Tensor:
        """(batch_size, num_features, *) -> the same shape."""
        gn = self.gn
        return group_norm(x, gn.num_groups, gn.weight, gn.bias, gn.eps, forward_kernel)
