// Warpgroup matrix products of Hopper (sm_90a): D[64 x 128] += A[64 x 16] * B[16 x 128], fp16 in, fp32 sums.
//
// The four warps of a warpgroup issue each product together. A comes from registers, B from shared memory through a
// descriptor, D stays in registers. Products run asynchronously and in order: fence, products, commit, wait.
//
// Who holds what, for lane l of warp w in the warpgroup, row = 16 * w + l / 4, pair = 2 * (l % 4):
//   A fragment   a0 = A[row][pair, pair + 1]       a1 = A[row + 8][pair, pair + 1]
//                a2 = A[row][pair + 8, pair + 9]   a3 = A[row + 8][pair + 8, pair + 9]     (two fp16 a register)
//   D fragment   d[4 * j + 0, 1] = D[row][8 * j + pair, + 1]    d[4 * j + 2, 3] = D[row + 8][8 * j + pair, + 1]
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "mbarrier.cuh"

// wgmma and setmaxnreg exist for the architecture-specific target alone; other passes over the source get a trap.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KBENCH_ASM_SM90A(...) __trap()
#else
#define KBENCH_ASM_SM90A(...) asm volatile(__VA_ARGS__)
#endif

namespace kbench {

constexpr int WARPGROUP_THREADS = 128;
constexpr int WGMMA_ROWS = 64;      // M: rows of A and D
constexpr int WGMMA_COLUMNS = 128;  // N: columns of B and D
constexpr int WGMMA_DEPTH = 16;     // K: products summed by one instruction
constexpr int WGMMA_SUMS = WGMMA_ROWS * WGMMA_COLUMNS / WARPGROUP_THREADS;

/// Orders this warpgroup's register writes before the products that read them. First before every batch of products.
__device__ __forceinline__ void wgmma_fence() { KBENCH_ASM_SM90A("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Closes the batch of products issued since the last commit.
__device__ __forceinline__ void wgmma_commit() { KBENCH_ASM_SM90A("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most PENDING batches are unfinished; the sums of the older ones may be read, their B overwritten.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  KBENCH_ASM_SM90A("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/// Tells the compiler that `sums` change here: it may not move their reads above, where products still write them.
template <int COUNT>
__device__ __forceinline__ void wgmma_pin(float (&sums)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

/// Register budget of this warpgroup from here on; the kernel needs a cap at entry (__launch_bounds__(threads, 1)).
template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24, "setmaxnreg takes multiples of 8 from 24 on");
  KBENCH_ASM_SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS <= 256, "setmaxnreg takes multiples of 8 up to 256");
  KBENCH_ASM_SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/// Descriptor fields of an unswizzled B operand, without the address. B is made of core matrices of 8 columns by 8 deep,
/// each 128 contiguous bytes: 16 bytes (8 values along K) for each of 8 neighbouring columns. `depth_stride_bytes` is the
/// distance of the two core matrices along K, `column_stride_bytes` that of neighbours along N. With columns 16 bytes
/// apart throughout (column stride 128), any byte distance that is a multiple of 16 serves as depth stride: two taps of a
/// convolution, or two parts of a split operand, can share one product.
constexpr __host__ __device__ uint64_t operand_layout(uint32_t depth_stride_bytes, uint32_t column_stride_bytes = 128) {
  return (uint64_t((depth_stride_bytes >> 4) & 0x3FFFu) << 16) | (uint64_t((column_stride_bytes >> 4) & 0x3FFFu) << 32);
}

/// The address field of a descriptor: add it to operand_layout(), and add byte offsets >> 4 to step through memory.
__device__ __forceinline__ uint64_t operand_address(uint32_t shared) { return uint64_t((shared >> 4) & 0x3FFFu); }

// The 64 sums of a thread, as an instruction's operands.
#define KBENCH_WGMMA_SUMS_TEXT                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                            \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                  \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                  \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KBENCH_WGMMA_SUMS_8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define KBENCH_WGMMA_SUMS(d)                                                                          \
  KBENCH_WGMMA_SUMS_8(d, 0), KBENCH_WGMMA_SUMS_8(d, 8), KBENCH_WGMMA_SUMS_8(d, 16), KBENCH_WGMMA_SUMS_8(d, 24), \
      KBENCH_WGMMA_SUMS_8(d, 32), KBENCH_WGMMA_SUMS_8(d, 40), KBENCH_WGMMA_SUMS_8(d, 48), KBENCH_WGMMA_SUMS_8(d, 56)

/// sums = A * B + (accumulate ? sums : 0), with A in registers. The four registers of a fragment are best used in one
/// combination only: the instruction takes an aligned run of four, and any other combination costs copies.
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[WGMMA_SUMS], uint32_t a0, uint32_t a1, uint32_t a2,
                                                 uint32_t a3, uint64_t b, bool accumulate) {
  KBENCH_ASM_SM90A(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KBENCH_WGMMA_SUMS_TEXT
      "}, {%64, %65, %66, %67}, %68, keep, 1, 1, 0;\n"
      "}\n"
      : KBENCH_WGMMA_SUMS(d)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(int(accumulate)));
}

/// As above, with A in shared memory, laid out like B: core matrices of 8 rows by 8 deep. Costs half as much again of
/// shared-memory reads, and saves registers.
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[WGMMA_SUMS], uint64_t a, uint64_t b, bool accumulate) {
  KBENCH_ASM_SM90A(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KBENCH_WGMMA_SUMS_TEXT
      "}, %64, %65, keep, 1, 1, 0, 0;\n"
      "}\n"
      : KBENCH_WGMMA_SUMS(d)
      : "l"(a), "l"(b), "r"(int(accumulate)));
}

}  // namespace kbench
