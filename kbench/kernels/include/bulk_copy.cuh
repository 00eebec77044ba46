// Bulk copies between global and shared memory by Hopper's copy engine (sm_90), without tensor maps.
//
// One thread issues a copy of up to a whole stage: no registers hold the data, no thread waits for it, and thousands of
// bytes are in flight per instruction. Addresses and sizes must be multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "mbarrier.cuh"

namespace kbench {

constexpr uint32_t BULK_COPY_ALIGNMENT_BYTES = 16;

/// L2 policy for data that is touched once: its lines go first, so that streams leave the cache to others.
__device__ __forceinline__ uint64_t policy_evict_first() {
  uint64_t policy = 0;
  KBENCH_ASM_SM90("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// L2 policy for data that many blocks will read again.
__device__ __forceinline__ uint64_t policy_evict_last() {
  uint64_t policy = 0;
  KBENCH_ASM_SM90("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Starts global -> shared; the bytes count towards `barrier`, which must have been told to expect them.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
  KBENCH_ASM_SM90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                      shared_address(shared)),
                  "l"(global), "r"(bytes), "r"(shared_address(barrier))
                  : "memory");
}

/// As bulk_load, with an L2 policy.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier,
                                          uint64_t policy) {
  KBENCH_ASM_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// As bulk_load, into the same offset of every block of the cluster whose bit is set; each block's own barrier counts.
__device__ __forceinline__ void bulk_load_multicast(void* shared, const void* global, uint32_t bytes, uint64_t* barrier,
                                                    uint16_t block_mask) {
  KBENCH_ASM_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(block_mask)
      : "memory");
}

/// Orders this thread's ordinary shared-memory writes before later reads by the copy engine or the tensor cores. Every
/// writing thread calls it, then a barrier, then one thread issues the copy.
__device__ __forceinline__ void fence_shared_to_async() {
  KBENCH_ASM_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Starts shared -> global; joins this thread's open bulk group.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, uint32_t bytes) {
  KBENCH_ASM_SM90("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                  "r"(shared_address(shared)), "r"(bytes)
                  : "memory");
}

/// As bulk_store, with an L2 policy.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, uint32_t bytes, uint64_t policy) {
  KBENCH_ASM_SM90("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(global),
                  "r"(shared_address(shared)), "r"(bytes), "l"(policy)
                  : "memory");
}

/// Closes this thread's open bulk group.
__device__ __forceinline__ void bulk_store_commit() { KBENCH_ASM_SM90("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until at most PENDING of this thread's groups still *read* shared memory: then the older slots may be refilled.
template <int PENDING>
__device__ __forceinline__ void bulk_store_wait_read() {
  KBENCH_ASM_SM90("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/// Waits until at most PENDING of this thread's groups are incomplete: the older writes are visible to this thread.
template <int PENDING>
__device__ __forceinline__ void bulk_store_wait() {
  KBENCH_ASM_SM90("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

}  // namespace kbench
