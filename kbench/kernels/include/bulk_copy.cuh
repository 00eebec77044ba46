// Bulk copies from global to shared memory by Hopper's copy engine (sm_90), without tensor maps.
//
// One thread issues a copy of up to a whole stage: no registers hold the data, no thread waits for it, and thousands of
// bytes are in flight per instruction. Addresses and sizes must be multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "mbarrier.cuh"

namespace kbench {

constexpr uint32_t BULK_COPY_ALIGNMENT_BYTES = 16;

/// Starts global -> shared; the bytes count towards `barrier`, which must have been told to expect them.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
  KBENCH_ASM_SM90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                      shared_address(shared)),
                  "l"(global), "r"(bytes), "r"(shared_address(barrier))
                  : "memory");
}

/// Orders this thread's ordinary shared-memory writes before later reads by the copy engine or the tensor cores. Every
/// writing thread calls it, then a barrier, then one thread issues the copy.
__device__ __forceinline__ void fence_shared_to_async() {
  KBENCH_ASM_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace kbench
