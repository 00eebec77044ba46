// Convolution 3x3 -> GroupNorm -> scale -> max-pool 4x4 -> clamp in one launch, at fp32's accuracy on fp16 tensor
// cores.
//
// Takes up to 8 input and 64 output channels, and images whose pooled values a cluster's blocks have room for (496 a
// channel and block). Of a block's four warpgroups, two consume (tensor cores, pooling), one produces (input) and one
// writes (statistics, output).
#include "conv_norm_pool/consumer.cuh"
#include "conv_norm_pool/finish.cuh"
#include "conv_norm_pool/plan.cuh"
#include "conv_norm_pool/producer.cuh"
#include "conv_norm_pool/writer.cuh"

namespace kbench::conv_norm_pool {

// Registers of each role; they share the 65536 of a multiprocessor, 128 for each of 512 threads.
constexpr int CONSUMER_REGISTERS = 152, PRODUCER_REGISTERS = 128;
constexpr int WRITER_REGISTERS = 512 - 2 * CONSUMER_REGISTERS - PRODUCER_REGISTERS;

/// By the writer, while the others' first loads are on their way. A thread a barrier.
__device__ __forceinline__ void initialise(Shared& shared) {
  const int thread = int(threadIdx.x) % WARPGROUP_THREADS;
  if (thread < CHUNKS) {
    barrier_init(&shared.full[thread], PRODUCER_WARPS);
    barrier_init(&shared.empty[thread], 2 * WARPGROUP_THREADS / WARP_THREADS);
  } else if (thread < CHUNKS + 2) {
    barrier_init(&shared.summed[thread - CHUNKS], CONSUMER_THREADS);
    barrier_init(&shared.measured[thread - CHUNKS], PRODUCER_THREADS);
    barrier_init(&shared.reusable[thread - CHUNKS], WRITER_THREADS);
    barrier_init(&shared.exchanged[thread - CHUNKS], 1);
  } else if (thread < CHUNKS + 2 + DRAINS) {
    barrier_init(&shared.drained[thread - CHUNKS - 2], WRITER_THREADS);
  }
  if (thread < CHUNKS + 2 + DRAINS) fence_barrier_init();
  if (thread == 0) shared.unfit_weights = 0;
  shared.rejected[thread] = 0;
  if (thread < 2 * MAX_IN_CHANNELS) {
    const int buffer = thread / MAX_IN_CHANNELS, channel = thread % MAX_IN_CHANNELS;
    shared.magnitude[buffer][channel] = 0;
    shared.shift[buffer][channel] = 0.0f;  // blocks without rows leave it so
  }
  sync_threads<BLOCK_THREADS>(INITIALISED);
}
static_assert(MAX_ROUNDS / 32 == WRITER_THREADS, "what a thread of the writer has to set up");

/// By the writer: the scales and the first sample's shifts, which everybody waits for.
__device__ __forceinline__ void sample_first(const Arguments& arguments, const Share& share, Shared& shared) {
  const Producer sampler(arguments, share, shared);
  float pixel[WARP_CHANNELS];
  sampler.load_pixels(0, pixel);
  initialise(shared);
  sampler.publish_scales(pixel);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1) fused_kernel(const __grid_constant__ Arguments arguments) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const Share share(arguments);
  // Only the writers talk to other blocks, much later: nobody else waits for them to have started.
  const int group = warpgroup_index();
  if (group < 2) {
    take_registers<CONSUMER_REGISTERS>();
    Weights weights;
    load_weights(arguments, shared, weights);
    Consumer(arguments, share, shared).run(weights);
    wait_cluster();
    write_last_sample(arguments, share, shared);
    compute_rejected(arguments, share, shared);
  } else {
    if (group == 2) {
      give_registers<PRODUCER_REGISTERS>();
      Producer(arguments, share, shared).run();
      wait_cluster();
    } else {
      give_registers<WRITER_REGISTERS>();
      sample_first(arguments, share, shared);
      prefetch_first(arguments, share);
      arrive_cluster();
      wait_cluster();
      Writer(arguments, share, shared, int(threadIdx.x) % WARPGROUP_THREADS).run();
    }
    write_last_sample(arguments, share, shared);
  }
  // A block's shared memory outlives the other blocks' stores to it: its writers have waited for the last of them.
}

/// Whether a block's share of a sample fits in its shared memory.
bool holds(const Arguments& arguments, int blocks) {
  return ceil_div(arguments.units(), blocks) * arguments.pooled_width() <= MAX_WINDOWS;
}

/// Blocks per sample: more of them for tall images, and for batches that would leave multiprocessors idle.
int cluster_blocks(const Arguments& arguments, int multiprocessors) {
  int blocks = 2;
  while (blocks < MAX_CLUSTER &&
         (!holds(arguments, blocks) ||
          (arguments.batch * blocks * 2 <= multiprocessors && arguments.units() >= blocks * 4)))
    blocks *= 2;
  return blocks;
}

int launch(Arguments arguments, cudaStream_t stream) {
  int multiprocessors = 0;
  KBENCH_RETURN_IF_ERROR(device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount));
  const int blocks = cluster_blocks(arguments, multiprocessors);
  if (!holds(arguments, blocks)) return int(cudaErrorInvalidValue);
  // Rounds of equal length: with 66 clusters at most and 128 samples, 64 clusters take two each.
  const int most = max(1, multiprocessors / blocks);
  const int clusters = ceil_div(arguments.batch, ceil_div(arguments.batch, most));
  if (ceil_div(arguments.batch, clusters) > MAX_ROUNDS) return int(cudaErrorInvalidValue);
  arguments.clusters = clusters;
  arguments.band_units = ceil_div(arguments.units(), blocks);
  while (ceil_div(arguments.band_units, 1 << arguments.drain_shift) > DRAINS) ++arguments.drain_shift;
  arguments.full_rounds = arguments.batch / clusters;
  arguments.more_rounds = arguments.batch % clusters;
  KBENCH_RETURN_IF_ERROR(
      cudaFuncSetAttribute(fused_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Shared))));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = unsigned(blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(clusters * blocks));
  config.blockDim = dim3(BLOCK_THREADS);
  config.dynamicSmemBytes = sizeof(Shared);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  KBENCH_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, fused_kernel, arguments));
  return launch_status();
}

}  // namespace kbench::conv_norm_pool

/// x (batch, in_channels, height, width), weight (out_channels, in_channels, 3, 3), bias, gamma, beta, scale
/// (out_channels) -> out (batch, out_channels, (height - 2) / 4, (width - 2) / 4); all contiguous fp32.
extern "C" int kbench_conv_norm_pool(const float* x, const float* weight, const float* bias, const float* gamma,
                                     const float* beta, const float* scale, float* out, int32_t batch,
                                     int32_t in_channels, int32_t height, int32_t width, int32_t out_channels,
                                     int32_t groups, float eps, float clamp_min, float clamp_max, void* stream) {
  using namespace kbench::conv_norm_pool;
  const Arguments arguments{x,           weight, bias,  gamma,        beta,   scale, out,       batch,
                            in_channels, height, width, out_channels, groups, eps,   clamp_min, clamp_max,
                            0,           0,      0,     0,            0};
  const bool fits = batch >= 1 && in_channels >= 1 && in_channels <= MAX_IN_CHANNELS && out_channels >= 1 &&
                    out_channels <= MAX_OUT_CHANNELS && groups >= 1 && out_channels % groups == 0 &&
                    height >= KERNEL - 1 + POOL && width >= KERNEL - 1 + POOL;
  if (!fits) return int(cudaErrorInvalidValue);
  return launch(arguments, static_cast<cudaStream_t>(stream));
}

