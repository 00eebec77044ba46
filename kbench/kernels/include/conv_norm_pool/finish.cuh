// What the consumers do after their last product: write the last sample, then what only the exact path can hold.
#pragma once

#include "exact.cuh"
#include "plan.cuh"
#include "writer.cuh"

namespace kbench::conv_norm_pool {

constexpr int LAST_CHANNELS = MAX_OUT_CHANNELS / CONSUMER_WARPS;  // of a warp
constexpr int LAST_LOADS = 16;                                    // of a lane, in each of them

/// The last sample's band. Loads start before the statistics are there, and travel while they are found.
__device__ __forceinline__ void write_last_sample(const Arguments& arguments, const Share& share,
                                                  const Shared& shared) {
  const int last = share.rounds - 1, warp = threadIdx.x / WARP_THREADS, lane = threadIdx.x % WARP_THREADS;
  float value[LAST_CHANNELS][LAST_LOADS];
#pragma unroll
  for (int k = 0; k < LAST_CHANNELS; ++k) {
    const int channel = warp + k * CONSUMER_WARPS;
    const BandRun run(arguments, share, share.sample(last), min(channel, arguments.out_channels - 1));
#pragma unroll
    for (int i = 0; i < LAST_LOADS; ++i) {
      const int place = lane + i * WARP_THREADS;
      value[k][i] = channel < arguments.out_channels && place < run.count ? __ldcg(run.values + place) : 0.0f;
    }
  }
  sync_threads(LAST_STATISTICS, WRITER_THREADS + CONSUMER_THREADS);
  if (is_rejected(shared, last)) return;
#pragma unroll
  for (int k = 0; k < LAST_CHANNELS; ++k) {
    const int channel = warp + k * CONSUMER_WARPS;
    if (channel >= arguments.out_channels) break;
    const BandRun run(arguments, share, share.sample(last), channel);
    const float factor = shared.factor[channel], offset = shared.offset[channel];
#pragma unroll
    for (int i = 0; i < LAST_LOADS; ++i) {
      const int place = lane + i * WARP_THREADS;
      if (place < run.count) run.values[place] = finished(arguments, value[k][i], factor, offset);
    }
    normalise_run<8>(arguments, shared, run, channel, LAST_LOADS * WARP_THREADS);
  }
}

__device__ __forceinline__ void finish(const Arguments& arguments, const Share& share, Shared& shared) {
  sync_threads(CONSUMERS, CONSUMER_THREADS);
  write_last_sample(arguments, share, shared);
  auto sums = reinterpret_cast<double (*)[2]>(shared.ring);
  for (int round = 0, turn = 0; round < share.rounds; ++round) {
    if (!is_rejected(shared, round)) continue;
    if (turn++ % share.cluster_blocks == share.rank) ExactSample(arguments, share.sample(round), sums).run();
  }
}

}  // namespace kbench::conv_norm_pool
