// convolution 3x3 (up to 8 -> up to 64 channels) -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over
// channels, fp32 in and out, on Hopper's tensor cores at fp32 accuracy.
//
// One persistent block per multiprocessor goes over its rows of the batch twice: for its statistics, by correlations of
// the input where the batch is large enough to fill the device, else by the convolution; then, when all blocks that
// share a sample with it are there, the convolution with the whole epilogue in registers. Samples whose statistics
// correlations do not give, and those that fp16 pairs cannot hold, normally none, are recomputed at the end. See
// conv_norm_logsumexp_wgmma.md.
#include <algorithm>
#include <utility>

#include <cooperative_groups.h>

#include "conv_logsumexp/correlation.cuh"
#include "conv_logsumexp/epilogue.cuh"
#include "conv_logsumexp/exact.cuh"
#include "conv_logsumexp/statistics.cuh"

namespace kbench::conv_logsumexp {

constexpr int CONSUMERS = 3;    // warpgroups: while one multiplies, two are in their epilogues
// Steps of a row's 14 that still run when the next warpgroup may issue its own. In the first pass two warpgroups'
// products run at a time; in the second each needs its own soon, for its epilogue.
constexpr int MOMENTS_LATE_STEPS = 7, RESULT_LATE_STEPS = 2;
constexpr int BATCH = 16;       // elements that a thread takes through the epilogue together
constexpr int FIRST_ROWS = 2 + 2 * CONSUMERS;  // input rows of two turns
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP_THREADS;
constexpr int PRODUCER_REGISTERS = 104;
constexpr int CONSUMER_REGISTERS = 136;
static_assert((PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS) * WARPGROUP_THREADS <= 65536, "register file");
static_assert(sizeof(Shared<CONSUMERS>) + 128 <= 227 * 1024, "shared memory of a block");

/// Shared memory of the row kernels, aligned for the tensor cores' descriptors.
__device__ __forceinline__ Shared<CONSUMERS>& shared_of_block() {
  extern __shared__ unsigned char raw[];
  const uint32_t address = shared_address(raw);
  return *reinterpret_cast<Shared<CONSUMERS>*>(raw + ((128 - address % 128) % 128));
}

/// Between the passes. After convolutions every block waits for all. After correlations it waits only for those that share
/// a sample with it: each has a word in memory for that, cleared at the start. All blocks arrive at the grid's barrier then
/// and pass it before they look, so that nobody sees a word of an earlier launch. Release and acquire of the words
/// order what other threads of a block wrote or read too, by the block's barriers before and behind: no fence besides.
class Passes {
 public:
  /// Every thread of the grid, at the start.
  __device__ explicit Passes(const Problem& problem) : problem_(problem) {
    if (!problem.correlated) return;
    if (threadIdx.x == 0) problem.published[blockIdx.x] = 0;
    started_ = cooperative_groups::this_grid().barrier_arrive();
  }

  /// Every thread of the grid: the block's partial moments are written.
  __device__ __forceinline__ void publish() {
    if (!problem_.correlated) {
      cooperative_groups::this_grid().sync();
      return;
    }
    cooperative_groups::this_grid().barrier_wait(std::move(started_));
    if (threadIdx.x == 0) {
      asm volatile("st.release.gpu.b32 [%0], 1;" ::"l"(problem_.published + blockIdx.x) : "memory");
    }
  }

  /// The producer, then: those of all the block's samples are.
  __device__ __forceinline__ void wait_for_partials() const {
    if (!problem_.correlated) return;
    const int per_sample = problem_.rows_per_sample();
    const int first = problem_.first_block(problem_.first_row(blockIdx.x) / per_sample);
    const int last = problem_.last_block((problem_.first_row(blockIdx.x + 1) - 1) / per_sample);
    for (int block = first + int(threadIdx.x % WARPGROUP_THREADS); block <= last; block += WARPGROUP_THREADS) {
      int there;
      do {
        asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(there) : "l"(problem_.published + block) : "memory");
      } while (there == 0);
    }
    sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  }

 private:
  const Problem& problem_;
  cooperative_groups::grid_group::arrival_token started_;
};

/// The sample's frame from memory, where the first pass has left it.
__device__ void use_frame_of(const Problem& problem, Shared<CONSUMERS>& shared, Feeder<CONSUMERS>& feeder, int sample) {
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  if (threadIdx.x % WARPGROUP_THREADS == 0) shared.frame = problem.frames[sample];
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  feeder.use_frame();
}

/// The block's next sample of TIER_REPEAT after the given one, or -1. It is the block's that owns its first row.
__device__ int next_to_repeat(const Problem& problem, int sample) {
  if (!problem.correlated) return -1;
  const int per_sample = problem.rows_per_sample();
  const int end = (problem.first_row(blockIdx.x + 1) - 1) / per_sample + 1;
  for (sample = max(sample + 1, problem.first_row(blockIdx.x) / per_sample); sample < end; ++sample) {
    if (problem.first_block(sample) == int(blockIdx.x) && problem.tiers[sample] == TIER_REPEAT) return sample;
  }
  return -1;
}

/// The block's rows, then each sample to repeat: one walk for its moments, and one for its result. The first walk for
/// moments is over correlations where the problem allows it.
__device__ __forceinline__ void produce(const Problem& problem, Shared<CONSUMERS>& shared, Passes& passes) {
  Feeder<CONSUMERS> feeder(problem, shared);
  Run run;
  int repeated = -1, samples = 0;
  const bool backwards = problem.correlated && last_sample_first(problem, blockIdx.x);
  Walk first_pass(problem, backwards);
  int runs = 0;
  int framed = -1;  // the sample whose frame is in use
  for (; first_pass.next(problem, run); ++runs) {
    const auto prepare = [&] {
      if (run.sample != framed) {
        framed = run.sample;
        measure_frame(problem, shared, framed, [&] { feeder.announce(run); });
        feeder.use_frame();
      } else {
        feeder.announce(run);
      }
    };
    if (problem.correlated) {
      feeder.feed_correlated(run, runs == 0, prepare);
    } else {
      prepare();
      feeder.feed(run, 0, run.rows + 2);
    }
  }
  Walk walk(problem, problem.correlated && !backwards);
  do {
    for (int sample = -1; walk.next(problem, run);) {
      feeder.announce(run);
      int ahead = 0;
      if (run.sample != sample) {
        sample = run.sample;
        if (sample != framed) use_frame_of(problem, shared, feeder, sample);
        framed = sample;
        const bool first = repeated < 0 && samples == 0;
        if (repeated >= 0) {
          feeder.feed(run, 0, run.rows + 2);
          __syncthreads();
        }
        const int buffer = samples & 1, blocks = problem.last_block(sample) - problem.first_block(sample) + 1;
        const bool correlated = problem.correlated && repeated < 0;
        const int slots = correlated ? blocks : repeated < 0 ? blocks * CONSUMERS : CONSUMERS;
        barrier_wait(&shared.constants_empty[buffer], (samples >> 1 & 1) ^ 1);
        // The first time also before the barrier, from whatever the partials' memory holds: the code comes from cold
        // memory then, while others still work, and what it leaves is overwritten.
        if (first) barrier_wait(&shared.weights_loaded, 0);
#pragma unroll 1
        for (bool complete = !first;; complete = true) {
          compute_constants(problem, shared, sample, complete || correlated ? slots : 0, correlated, buffer);
          if (complete) break;
          // The tensor cores have work while the constants are made; later, the sample before.
          if (problem.correlated) feeder.drain_correlated();
          ahead = min(FIRST_ROWS, run.rows + 2);
          feeder.feed(run, 0, ahead);
          passes.publish();
          passes.wait_for_partials();
        }
        if (threadIdx.x % WARPGROUP_THREADS == 0 && shared.samples[buffer].tier >= TIER_REPEAT) shared.special = 1;
        barrier_arrive(&shared.constants_full[buffer]);
        ++samples;
      }
      feeder.feed(run, ahead, run.rows + 2);
    }
    sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);  // one thread has written the tiers
    if (shared.special == 0) return;
    repeated = next_to_repeat(problem, repeated);
    if (repeated >= 0) walk = Walk(problem, repeated);
  } while (repeated >= 0);
}

__device__ __forceinline__ void compute(const Problem& problem, Shared<CONSUMERS>& shared, Passes& passes, int group) {
  if (!problem.correlated) {
    load_weights<CONSUMERS * WARPGROUP_THREADS>(problem, shared, 0);
    barrier_arrive(&shared.weights_loaded);
  } else {
    if (group == EDGES_GROUP) {
      load_weights<WARPGROUP_THREADS>(problem, shared, group * WARPGROUP_THREADS);
      barrier_arrive(&shared.weights_loaded);
    }
    RunMoments<CONSUMERS>(problem, shared).all_runs(group == EDGES_GROUP);
  }
  Consumer<CONSUMERS> consumer(problem, shared, group);
  MomentsOfRows moments(problem, group, CONSUMERS);
  Epilogue<CONSUMERS, BATCH> epilogue(problem, shared, group);
  Walk walk(problem, problem.correlated && !last_sample_first(problem, blockIdx.x));
  for (int repeated = -1;;) {
    if (repeated >= 0 || !problem.correlated) consumer.pass<MOMENTS_LATE_STEPS>(moments, walk);
    if (repeated < 0) {
      passes.publish();
    } else {
      __syncthreads();
    }
    consumer.pass<RESULT_LATE_STEPS>(epilogue, walk);
    if (shared.special == 0) return;
    repeated = next_to_repeat(problem, repeated);
    if (repeated < 0) break;
    walk = Walk(problem, repeated);
  }
  using Exact = ExactShared<CONSUMERS * WARPGROUP_THREADS>;
  static_assert(sizeof(Exact) <= RING_BYTES, "the exact path works in the ring's memory");
  recompute_exact_samples(problem, *reinterpret_cast<Exact*>(shared.ring));
}

__global__ void __launch_bounds__(THREADS, 1) conv_logsumexp_kernel(const __grid_constant__ Problem problem) {
  Shared<CONSUMERS>& shared = shared_of_block();
  if (threadIdx.x == 0) init_barriers(shared, problem.correlated ? WARPGROUP_THREADS : CONSUMERS * WARPGROUP_THREADS);
  __syncthreads();
  Passes passes(problem);
  const int group = threadIdx.x / WARPGROUP_THREADS;
  if (group == CONSUMERS) {
    give_registers<PRODUCER_REGISTERS>();
    produce(problem, shared, passes);
  } else {
    take_registers<CONSUMER_REGISTERS>();
    compute(problem, shared, passes, group);
  }
}

/// Fills in the work split and cuts the workspace up; bytes needed are returned, `workspace` may be null for that.
int64_t plan(Problem& problem, int multiprocessors, void* workspace) {
  problem.rows_per_block = int(ceil_div(problem.total_rows(), int64_t(multiprocessors)));
  // A sample's rows touch at most two blocks more than they fill.
  // With correlations that is at most CONSUMERS blocks, and at least as many slots remain for a sample to repeat.
  problem.slots = (problem.rows_per_sample() / problem.rows_per_block + 2) * CONSUMERS;
  // Correlations have to be worth what a run costs besides, and the samples to repeat must be as many as the blocks.
  problem.correlated = problem.strips == 1 && problem.width >= 16 && problem.width <= TILE_PIXELS &&
                       problem.height >= 32 && problem.height <= TILE_PIXELS &&
                       problem.rows_per_sample() <= 2 * problem.rows_per_block;
  unsigned char* base = static_cast<unsigned char*>(workspace);
  problem.partials = reinterpret_cast<Partial*>(base);
  int64_t bytes = int64_t(problem.batch) * problem.slots * MAX_CHANNELS * int64_t(sizeof(Partial));
  problem.frames = reinterpret_cast<Frame*>(base + bytes);
  bytes += int64_t(problem.batch) * int64_t(sizeof(Frame));
  problem.tiers = reinterpret_cast<int*>(base + bytes);
  bytes += int64_t(problem.batch) * int64_t(sizeof(int));
  problem.published = reinterpret_cast<int*>(base + bytes);
  return bytes + int64_t(multiprocessors) * int64_t(sizeof(int));
}

bool supported(const Problem& p, int64_t kernel_size, int64_t groups) {
  return p.batch >= 1 && p.in_channels >= 1 && p.in_channels <= MAX_INPUT_CHANNELS && p.channels >= 1 &&
         p.channels <= MAX_CHANNELS && kernel_size == 3 && p.height >= 3 && p.width >= 3 && groups >= 1 &&
         p.channels % groups == 0 && int64_t(p.in_channels) * p.height * p.width < (int64_t(1) << 31) &&
         p.total_rows() < (int64_t(1) << 30);
}

}  // namespace kbench::conv_logsumexp

using namespace kbench::conv_logsumexp;

namespace {

/// Sizes that fit, or cudaErrorInvalidValue.
cudaError_t describe(Problem& problem, int64_t batch, int64_t in_channels, int64_t height, int64_t width, int64_t channels,
                     int64_t kernel_size, int64_t groups) {
  const int64_t sizes[] = {batch, in_channels, height, width, channels};
  for (const int64_t size : sizes) {
    if (size < 1 || size >= (int64_t(1) << 31)) return cudaErrorInvalidValue;
  }
  problem.batch = int(batch);
  problem.in_channels = int(in_channels);
  problem.height = int(height);
  problem.width = int(width);
  problem.channels = int(channels);
  problem.out_height = int(height) - 2;
  problem.out_width = int(width) - 2;
  problem.strips = strips_of(problem.out_width);
  if (!supported(problem, kernel_size, groups)) return cudaErrorInvalidValue;
  problem.channels_per_group = int(channels / groups);
  problem.inverse_pixels = 1.0 / (double(problem.out_height) * problem.out_width);
  problem.inverse_group = 1.0 / problem.channels_per_group;
  return cudaSuccess;
}

}  // namespace

/// Bytes of workspace that kbench_conv_norm_logsumexp needs, to *bytes; cudaErrorInvalidValue for unsupported sizes.
extern "C" int kbench_conv_norm_logsumexp_workspace(int64_t batch, int64_t in_channels, int64_t height, int64_t width,
                                                    int64_t channels, int64_t kernel_size, int64_t groups,
                                                    int64_t* bytes) {
  Problem problem = {};
  KBENCH_RETURN_IF_ERROR(describe(problem, batch, in_channels, height, width, channels, kernel_size, groups));
  int multiprocessors = 0;
  KBENCH_RETURN_IF_ERROR(kbench::device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount));
  *bytes = plan(problem, multiprocessors, nullptr);
  return 0;
}

/// x (batch, in_channels, height, width) -> out (batch, 1, height - 2, width - 2), all contiguous; `workspace` is
/// 16-byte aligned, its content irrelevant. Returns cudaErrorInvalidValue for unsupported sizes.
extern "C" int kbench_conv_norm_logsumexp(const float* x, const float* weight, const float* bias, const float* gamma,
                                          const float* beta, float* out, void* workspace, int64_t batch,
                                          int64_t in_channels, int64_t height, int64_t width, int64_t channels,
                                          int64_t kernel_size, int64_t groups, double eps, void* stream) {
  Problem problem = {};
  problem.x = x;
  problem.weight = weight;
  problem.bias = bias;
  problem.gamma = gamma;
  problem.beta = beta;
  problem.out = out;
  problem.eps = eps;
  KBENCH_RETURN_IF_ERROR(describe(problem, batch, in_channels, height, width, channels, kernel_size, groups));
  int multiprocessors = 0;
  KBENCH_RETURN_IF_ERROR(kbench::device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount));
  plan(problem, multiprocessors, workspace);
  constexpr int SHARED_BYTES = int(sizeof(Shared<CONSUMERS>)) + 128;
  KBENCH_RETURN_IF_ERROR(
      cudaFuncSetAttribute(conv_logsumexp_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
  cudaLaunchAttribute cooperative = {};  // all blocks at once on the device, or none: they wait for each other
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(unsigned(kbench::ceil_div(problem.total_rows(), int64_t(problem.rows_per_block))));
  launch.blockDim = dim3(THREADS);
  launch.dynamicSmemBytes = SHARED_BYTES;
  launch.stream = static_cast<cudaStream_t>(stream);
  launch.attrs = &cooperative;
  launch.numAttrs = 1;
  KBENCH_RETURN_IF_ERROR(cudaLaunchKernelEx(&launch, conv_logsumexp_kernel, problem));
  return kbench::launch_status();
}
