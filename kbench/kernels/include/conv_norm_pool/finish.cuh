// What a block does after its last product: write the last sample, then what only the exact path can hold.
#pragma once

#include "exact.cuh"
#include "plan.cuh"
#include "writer.cuh"

namespace kbench::conv_norm_pool {

/// By all warps of the block.
__device__ __forceinline__ void write_last_sample(const Arguments& arguments, const Share& share,
                                                  const Shared& shared) {
  const int last = share.rounds - 1, warp = threadIdx.x / WARP_THREADS;
  sync_threads<BLOCK_THREADS>(LAST_STATISTICS);
  if (is_rejected(shared, last)) return;
  const int end = share.pooled_rows * arguments.pooled_width();
  write_windows(arguments, share, shared, share.sample(last), warp, BLOCK_THREADS / WARP_THREADS, 0, end);
}

/// By the consumers, once nothing reads the ring any more.
__device__ __forceinline__ void compute_rejected(const Arguments& arguments, const Share& share, Shared& shared) {
  auto sums = reinterpret_cast<double (*)[2]>(shared.ring);
  for (int round = 0, turn = 0; round < share.rounds; ++round) {
    if (!is_rejected(shared, round)) continue;
    if (turn++ % share.cluster_blocks == share.rank) ExactSample(arguments, share.sample(round), sums).run();
  }
}

}  // namespace kbench::conv_norm_pool
