// Elementwise maps over (batch, channel) planes: y[plane][pixel] = map(plane)(x[plane][pixel]).
//
// A block takes a stretch of one plane at a time, so that whatever depends on the channel is fetched once per stretch
// and thread; what remains is a stream, and a stretch has four 16-byte loads per thread in flight before the first use.
#pragma once

#include "launch.cuh"
#include "vector.cuh"

namespace kbench {

constexpr int MAP_THREADS = 256;
constexpr int MAP_LOADS = 4;

/// Accesses that a block makes at a time.
constexpr int64_t MAP_STRETCH = int64_t(MAP_THREADS) * MAP_LOADS;

template <typename Function>
__device__ __forceinline__ float apply_each(const Function& function, float value) {
  return function(value);
}

template <typename Function>
__device__ __forceinline__ float4 apply_each(const Function& function, float4 value) {
  return make_float4(function(value.x), function(value.y), function(value.z), function(value.w));
}

/// `Access` is float, or float4 where every plane is aligned and a multiple of 16 bytes; `length` counts accesses.
template <typename Access, typename Map>
__global__ void __launch_bounds__(MAP_THREADS)
    map_planes_kernel(const Access* __restrict__ x, Access* __restrict__ y, int64_t planes, int64_t length, Map map) {
  const int64_t stretches = ceil_div(length, MAP_STRETCH);
  for (int64_t item = blockIdx.x; item < planes * stretches; item += gridDim.x) {
    const int64_t plane = item / stretches;
    const int64_t first = (item - plane * stretches) * MAP_STRETCH + threadIdx.x;
    const Access* source = x + plane * length;
    Access values[MAP_LOADS];
#pragma unroll
    for (int i = 0; i < MAP_LOADS; ++i) {
      const int64_t at = first + i * MAP_THREADS;
      if (at < length) values[i] = load_streaming(source + at);
    }
    const auto function = map(plane);
    Access* target = y + plane * length;
#pragma unroll
    for (int i = 0; i < MAP_LOADS; ++i) {
      const int64_t at = first + i * MAP_THREADS;
      if (at < length) target[at] = apply_each(function, values[i]);
    }
  }
}

/// Launches the map over `planes` planes of `pixels` values each; 16-byte accesses where the layout allows.
template <typename Map>
int map_planes(const float* x, float* y, int64_t planes, int64_t pixels, Map map, cudaStream_t stream) {
  if (planes == 0 || pixels == 0) return int(cudaSuccess);
  const bool vectors = pixels % VECTOR_FLOATS == 0 && is_aligned(x, VECTOR_BYTES) && is_aligned(y, VECTOR_BYTES);
  const int64_t length = vectors ? pixels / VECTOR_FLOATS : pixels;
  const int64_t items = planes * ceil_div(length, MAP_STRETCH);
  const unsigned blocks = unsigned(items < MAX_GRID_X ? items : MAX_GRID_X);
  if (vectors) {
    map_planes_kernel<<<blocks, MAP_THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x),
                                                          reinterpret_cast<float4*>(y), planes, length, map);
  } else {
    map_planes_kernel<<<blocks, MAP_THREADS, 0, stream>>>(x, y, planes, length, map);
  }
  return launch_status();
}

}  // namespace kbench
