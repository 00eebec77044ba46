// 16-byte accesses to global memory, with the cache behaviour that streams want.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace kbench {

constexpr int VECTOR_FLOATS = 4;
constexpr uintptr_t VECTOR_BYTES = sizeof(float4);

/// Load of data that this kernel reads once: evict-first in L1 and L2.
template <typename Vector>
__device__ __forceinline__ Vector load_streaming(const Vector* pointer) {
  return __ldcs(pointer);
}

/// Store of data that this kernel never reads back: evict-first in L2.
template <typename Vector>
__device__ __forceinline__ void store_streaming(Vector* pointer, Vector value) {
  __stcs(pointer, value);
}

/// Asks for a line that will be needed after a wait.
__device__ __forceinline__ void prefetch_to_l1(const void* pointer) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(pointer));
}

/// (value - centre) * scale + shift. Taking the centre off first keeps the rounding error that of the small difference.
__device__ __forceinline__ float centred_affine(float value, float centre, float scale, float shift) {
  return fmaf(value - centre, scale, shift);
}

__device__ __forceinline__ float4 centred_affine(float4 value, float centre, float scale, float shift) {
  return make_float4(centred_affine(value.x, centre, scale, shift), centred_affine(value.y, centre, scale, shift),
                     centred_affine(value.z, centre, scale, shift), centred_affine(value.w, centre, scale, shift));
}

}  // namespace kbench
