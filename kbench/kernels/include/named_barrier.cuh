// Hardware barriers of a block, 16 of them, each with a count of threads of its own; number 0 is __syncthreads.
#pragma once

#include <cuda_runtime.h>

namespace kbench {

/// Waits for `THREADS` threads, this one included, at barrier `id`.
template <int THREADS>
__device__ __forceinline__ void sync_threads(int id) {
  static_assert(THREADS % 32 == 0, "whole warps");
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

/// Counts this thread at barrier `id` without waiting.
template <int THREADS>
__device__ __forceinline__ void arrive_threads(int id) {
  static_assert(THREADS % 32 == 0, "whole warps");
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

}  // namespace kbench
