"""Ten honest ways to compute RMS normalisation and GELU on a GPU."""

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn.functional import gelu, rms_norm
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void normalise(const float* x, const float* weight, float* y, int columns) {
  const float* row = x + (size_t)blockIdx.x * columns;
  float sum = 0.f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] * row[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  __shared__ float sums[8];
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < 8; i++) total += sums[i];
  float scale = 1.f / sqrtf(total / columns + 1e-6f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    float value = row[i] * scale * weight[i];
    y[(size_t)blockIdx.x * columns + i] = 0.5f * value * (1.f + erff(value * 0.70710678118654752f));
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty_like(x);
  normalise<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""


def plain(x, weight):
    return gelu(x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * weight)


class Weighted(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))


class Plain(Weighted):
    def forward(self, x):
        return plain(x, self.weight)


class Library(Weighted):
    def forward(self, x):
        return gelu(rms_norm(x, x.shape[1:], self.weight, 1e-6))


class InPlace(Weighted):
    def forward(self, x):
        scale = torch.linalg.vector_norm(x, dim=1, keepdim=True).square_().div_(x.shape[1]).add_(1e-6).rsqrt_()
        return gelu((x * scale).mul_(self.weight))


class Compiled(Weighted):
    def __init__(self, features):
        super().__init__(features)
        self.call = torch.compile(plain)

    def forward(self, x):
        return self.call(x, self.weight)


class Cuda(Weighted):
    def __init__(self, features):
        super().__init__(features)
        declared = "torch::Tensor forward(torch::Tensor x, torch::Tensor weight);"
        self.module = load_inline("busy_rms_norm", declared, CUDA, functions=["forward"])

    def forward(self, x):
        return self.module.forward(x.contiguous(), self.weight)


@triton.jit
def kernel(x, weight, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row + at, at < columns, other=0.0)
    value = value * (1.0 / tl.sqrt(tl.sum(value * value) / columns + 1e-6)) * tl.load(weight + at, at < columns)
    tl.store(y + row + at, 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476)), at < columns)


class Triton(Weighted):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        kernel[(len(x),)](x, self.weight, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
        return y


class OwnStream(Weighted):
    def __init__(self, features):
        super().__init__(features)
        self.stream = torch.cuda.Stream()

    def forward(self, x):
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            y = plain(x, self.weight)
        current.wait_stream(self.stream)
        y.record_stream(current)
        return y


class TwoStreams(OwnStream):
    def forward(self, x):
        current, y, half = torch.cuda.current_stream(), torch.empty_like(x), len(x) // 2
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            y[:half] = plain(x[:half], self.weight)
        y[half:] = plain(x[half:], self.weight)
        current.wait_stream(self.stream)
        return y


class Graph(Weighted):
    def __init__(self, features):
        super().__init__(features)
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            held, stream = x.clone(), torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                plain(held, self.weight)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = plain(held, self.weight)
            self.graphs[x.shape] = graph, held, y
        graph, held, y = self.graphs[x.shape]
        held.copy_(x)
        graph.replay()
        return y.clone()


class Traced(Weighted):
    def __init__(self, features):
        super().__init__(features)
        self.call = torch.jit.script(plain)

    def forward(self, x):
        return self.call(x, self.weight)
