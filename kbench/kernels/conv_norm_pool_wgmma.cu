// Convolution 3x3 -> GroupNorm -> scale -> max-pool 4x4 -> clamp in one launch, at fp32's accuracy on fp16 tensor
// cores.
//
// Takes up to 8 input and 64 output channels and any image and batch; see conv_norm_pool_wgmma.md for the design and
// what limits it. Of a block's four warpgroups, two consume (tensor cores, pooling); of the others' eight warps, six
// produce (input) and two write (statistics, output).
#include "conv_norm_pool/consumer.cuh"
#include "conv_norm_pool/finish.cuh"
#include "conv_norm_pool/plan.cuh"
#include "conv_norm_pool/producer.cuh"
#include "conv_norm_pool/writer.cuh"

namespace kbench::conv_norm_pool {

// Registers of each role; they share the 65536 of a multiprocessor, 128 for each of 512 threads.
constexpr int CONSUMER_REGISTERS = 208, OTHER_REGISTERS = 48;
static_assert(CONSUMER_REGISTERS + OTHER_REGISTERS <= 2 * 128, "the register file");

__device__ __forceinline__ void initialise(const Arguments& arguments, Shared& shared) {
  if (threadIdx.x == 0) {
    shared.share = Share(arguments);
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(&shared.full[i], PRODUCER_GROUP_WARPS);
      barrier_init(&shared.empty[i], WARPGROUP_THREADS / WARP_THREADS);
    }
    for (int i = 0; i < RAW_SLOTS; ++i) barrier_init(&shared.raw_full[i], MAX_IN_CHANNELS);
    for (int i = 0; i < PRODUCER_GROUPS; ++i) barrier_init(&shared.started[i], PRODUCER_GROUP_WARPS);
    for (int i = 0; i < 2; ++i) {
      barrier_init(&shared.summed[i], CONSUMER_WARPS);
      barrier_init(&shared.reusable[i], 1);
      barrier_init(&shared.exchanged[i], 1);
    }
    for (int i = 0; i < WRITER_WARPS * WRITER_SLOTS; ++i) {
      barrier_init(&shared.staged_full[i / WRITER_SLOTS][i % WRITER_SLOTS], 1);
    }
    shared.unfit_weights = 0;
    fence_barrier_init();
  }
  if (threadIdx.x < PART_BYTES / 16) reinterpret_cast<uint4*>(shared.zeros)[threadIdx.x] = make_uint4(0, 0, 0, 0);
  fence_shared_to_async();
  if (threadIdx.x < MAX_ROUNDS / 32) shared.rejected[threadIdx.x] = 0;
  if (threadIdx.x < 2 * MAX_IN_CHANNELS) {
    const int buffer = threadIdx.x / MAX_IN_CHANNELS, channel = threadIdx.x % MAX_IN_CHANNELS;
    shared.magnitude[buffer][channel] = 0;
    shared.shift[buffer][channel] = 0.0f;  // blocks without rows leave it so
  }
}

__device__ __forceinline__ void sync_cluster() {
  KBENCH_ASM_SM90("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" :: : "memory");
}

template <bool SIMPLE>
__global__ void __launch_bounds__(BLOCK_THREADS, 1) fused_kernel(const __grid_constant__ Arguments arguments) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const Share& share = shared.share;
  initialise(arguments, shared);
  sync_cluster();
  if (warpgroup_index() >= CONSUMER_THREADS / WARPGROUP_THREADS) {
    give_registers<OTHER_REGISTERS>();
    const int warp = int(threadIdx.x) / WARP_THREADS - CONSUMER_WARPS;
    if (warp < PRODUCER_WARPS) {
      Producer<SIMPLE>(arguments, share, shared, warp).run();
    } else {
      Writer(arguments, share, shared, int(threadIdx.x) - (BLOCK_THREADS - WRITER_THREADS)).run();
    }
  } else {
    take_registers<CONSUMER_REGISTERS>();
    Consumer(arguments, share, shared).run();
    finish(arguments, share, shared);
  }
  // A block's shared memory must outlive the other blocks' stores to it.
  sync_cluster();
}

/// Blocks per sample: more of them for batches that would leave multiprocessors idle.
int cluster_blocks(const Arguments& arguments, int multiprocessors) {
  int blocks = 2;
  while (blocks < MAX_CLUSTER && arguments.batch * blocks * 2 <= multiprocessors && arguments.units() >= blocks * 4)
    blocks *= 2;
  return blocks;
}

int launch(const Arguments& arguments, cudaStream_t stream) {
  int multiprocessors = 0;
  KBENCH_RETURN_IF_ERROR(device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount));
  const int blocks = cluster_blocks(arguments, multiprocessors);
  // Rounds of equal length: with 66 clusters at most and 128 samples, 64 clusters take two each.
  const int most = max(1, multiprocessors / blocks);
  const int clusters = ceil_div(arguments.batch, ceil_div(arguments.batch, most));
  if (ceil_div(arguments.batch, clusters) > MAX_ROUNDS) return int(cudaErrorInvalidValue);
  const auto kernel = arguments.is_simple() ? fused_kernel<true> : fused_kernel<false>;
  KBENCH_RETURN_IF_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Shared))));
  constexpr int CARVEOUT_PERCENT = ceil_div(SHARED_CARVEOUT_BYTES * 100, MAX_CARVEOUT_BYTES);
  KBENCH_RETURN_IF_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, CARVEOUT_PERCENT));
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
  KBENCH_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, kernel, arguments));
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
                            in_channels, height, width, out_channels, groups, eps,   clamp_min, clamp_max};
  const bool fits = batch >= 1 && in_channels >= 1 && in_channels <= MAX_IN_CHANNELS && out_channels >= 1 &&
                    out_channels <= MAX_OUT_CHANNELS && groups >= 1 && out_channels % groups == 0 &&
                    height >= KERNEL - 1 + POOL && width >= KERNEL - 1 + POOL;
  if (!fits) return int(cudaErrorInvalidValue);
  return launch(arguments, static_cast<cudaStream_t>(stream));
}
