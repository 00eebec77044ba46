#include <cstdint>

__global__ void transposed_directly(const float* x, float* y, int64_t side) {
  const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place < side * side) y[place % side * side + place / side] = 3.f * x[place];
}

extern "C" int launch(const float* x, float* y, int64_t side, cudaStream_t stream) {
  transposed_directly<<<(side * side + 255) / 256, 256, 0, stream>>>(x, y, side);
  return cudaGetLastError();
}
