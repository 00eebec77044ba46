// Shared-memory barriers of Hopper (sm_90): arrival counts, transaction bytes, parity waits.
//
// A barrier flips its phase when all expected arrivals have come *and* all announced bytes have landed. Waiters name
// the parity (0 or 1) of the phase they wait for; a fresh barrier is in phase 0, so the first wait for a fill passes
// 0, and a producer's first wait for an empty slot passes 1, which returns at once.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

// Device code that needs sm_90 also gets compiled for older chips (one source, several targets); there it traps, and
// the host side never launches it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define KBENCH_ASM_SM90(...) __trap()
#else
#define KBENCH_ASM_SM90(...) asm volatile(__VA_ARGS__)
#endif

namespace kbench {

/// Address of an object in this block's shared memory, as the 32-bit form that PTX instructions take.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Address of the same shared-memory object in another block of the cluster.
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, uint32_t block_rank) {
  uint32_t remote = 0;
  KBENCH_ASM_SM90("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared), "r"(block_rank));
  return remote;
}

/// One thread initialises; then fence_barrier_init() by that thread and a block (or cluster) barrier before anyone
/// uses it.
__device__ __forceinline__ void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  KBENCH_ASM_SM90("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  KBENCH_ASM_SM90("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// One arrival; releases this thread's earlier shared-memory accesses to those who wait, and those of others that a
/// warp or block barrier has ordered before. compute-sanitizer's racecheck does not follow the latter: let every thread
/// arrive that read or wrote what is handed over by ordinary loads and stores.
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  KBENCH_ASM_SM90("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// One arrival that also announces `bytes` of bulk copies which must land before the phase completes.
__device__ __forceinline__ void barrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  KBENCH_ASM_SM90("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                  : "memory");
}

/// Whether the phase of this parity has completed; the hardware may suspend the thread for microseconds first.
__device__ __forceinline__ bool barrier_try_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  KBENCH_ASM_SM90(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

/// Blocks until the phase of this parity has completed, and acquires what the arrivals released (within the block).
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

/// As barrier_wait, but acquires what blocks of the whole cluster released.
__device__ __forceinline__ void barrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    KBENCH_ASM_SM90(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

/// Position in a ring of `STAGES` slots: which slot, and the parity of its current use.
template <int STAGES>
struct RingCursor {
  static_assert(STAGES >= 1, "a ring has at least one slot");
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1u;
    }
  }
};

}  // namespace kbench
