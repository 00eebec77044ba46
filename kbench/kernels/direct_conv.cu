// Direct convolution (stride 1, no padding) with bias, in fp32 FMA.
//
// A block computes 64 output channels of 8 x 32 tiles of pixels, one after the other; a warp 8 of the channels, a
// thread 8 channels x 8 pixels of one row, in registers. Weights are read from shared memory by broadcast, a row of
// input once for all of a filter row's taps: 192 FMAs for 9 16-byte reads with a 3-wide filter, so that the FMA units
// are the limit. While one tile is computed, the next one's input is on its way (cp.async into the other of two
// stages); the filters stay in shared memory for all of a block's tiles if they fit, else they travel with the input.
#include "launch.cuh"
#include "reduce.cuh"

#include <cuda_pipeline.h>

namespace {

constexpr int TILE_ROWS = 8;
constexpr int TILE_COLUMNS = 32;
constexpr int TILE_CHANNELS = 64;
constexpr int THREAD_CHANNELS = 8;
constexpr int THREAD_PIXELS = 8;
constexpr int WARPS = TILE_CHANNELS / THREAD_CHANNELS;
constexpr int THREADS = WARPS * kbench::WARP_THREADS;
static_assert(TILE_ROWS * TILE_COLUMNS == kbench::WARP_THREADS * THREAD_PIXELS, "a warp covers the tile");

// Filter taps in shared memory are rows of 64 channels, padded by 16 bytes: transposing then hits 8 banks, not one.
constexpr int WEIGHT_PITCH = TILE_CHANNELS + 4;
// What a block may have without asking; two blocks per SM hide each other's barriers.
constexpr int SHARED_BYTES = 48 * 1024;
constexpr int STAGES = 2;
constexpr int BLOCKS_PER_SM = 2;

// A warp's results of one channel go through shared memory on their way out.
constexpr int STAGING_PITCH = TILE_COLUMNS + 4;
constexpr int STAGING_FLOATS = WARPS * TILE_ROWS * STAGING_PITCH;

struct Convolution {
  int in_channels, height, width;
  int out_channels, kernel_height, kernel_width;
  int tiles = 0;
  int row_tiles = 0, column_tiles = 0;
  int input_pitch = 0;     // floats per row of input: 4 mod 32, so that a warp's 8 rows start in different banks
  int chunk_channels = 0;  // input channels in shared memory at a time
  int resident_floats = 0, stage_floats = 0;

  __host__ __device__ int out_height() const { return height - kernel_height + 1; }
  __host__ __device__ int out_width() const { return width - kernel_width + 1; }
  __host__ __device__ int window() const { return kernel_height * kernel_width; }
  __host__ __device__ int input_rows() const { return TILE_ROWS + kernel_height - 1; }
  __host__ __device__ int weight_floats(int channels) const { return channels * window() * WEIGHT_PITCH; }
  __host__ __device__ int input_floats(int channels) const { return channels * input_rows() * input_pitch; }
  __host__ __device__ int chunks() const { return kbench::ceil_div(in_channels, chunk_channels); }
  __host__ __device__ int shared_bytes() const {
    return (resident_floats + STAGES * stage_floats) * int(sizeof(float));
  }

  // Sizes the chunk and the stages; false if not even one input channel fits.
  bool plan() {
    constexpr int SHARED_FLOATS = SHARED_BYTES / int(sizeof(float));
    if (int64_t(in_channels) * (weight_floats(1) + STAGES * input_floats(1)) <= SHARED_FLOATS) {
      chunk_channels = in_channels;
      resident_floats = weight_floats(in_channels);
      stage_floats = input_floats(in_channels);
    } else {
      const int channel_floats = weight_floats(1) + input_floats(1);
      const int room = SHARED_FLOATS / STAGES / channel_floats;
      chunk_channels = room < in_channels ? room : in_channels;
      stage_floats = chunk_channels * channel_floats;
    }
    if (stage_floats < STAGING_FLOATS) stage_floats = STAGING_FLOATS;
    return chunk_channels >= 1 && shared_bytes() <= SHARED_BYTES;
  }
};

struct TilePosition {
  int64_t sample;
  int row, column;

  __device__ __forceinline__ TilePosition(const Convolution& conv, int tile) {
    const int line = tile / conv.column_tiles, image = line / conv.row_tiles;
    sample = image;
    row = (line - image * conv.row_tiles) * TILE_ROWS;
    column = (tile - line * conv.column_tiles) * TILE_COLUMNS;
  }
};

// Asynchronous (cp.async): no copy waits for the one before it. Absent values become zeros.
__device__ __forceinline__ void copy_or_zero(float* shared, const float* source, bool inside) {
  __pipeline_memcpy_async(shared, source, sizeof(float), inside ? 0 : sizeof(float));
}

// Outside the image, zeros: they only ever meet pixels that are not stored.
__device__ __forceinline__ void load_input(const float* __restrict__ x, float* shared, const Convolution& conv,
                                           const TilePosition& at, int first_channel, int channels) {
  const int lane = threadIdx.x % 32, rows = conv.input_rows();
  const float* image = x + (at.sample * conv.in_channels + first_channel) * conv.height * conv.width + at.column;
  int channel = 0, row = threadIdx.x / 32;
  for (int line = row; line < channels * rows; line += WARPS, row += WARPS) {
    while (row >= rows) {
      row -= rows;
      ++channel;
    }
    const float* source = image + (int64_t(channel) * conv.height + at.row + row) * conv.width;
    for (int column = lane; column < conv.input_pitch; column += 32) {
      const bool inside = at.row + row < conv.height && at.column + column < conv.width;
      copy_or_zero(shared + line * conv.input_pitch + column, inside ? source + column : x, inside);
    }
  }
}

__device__ __forceinline__ void load_weights(const float* __restrict__ weight, float* shared, const Convolution& conv,
                                             int first_output, int first_channel, int channels) {
  const int taps = channels * conv.window();
  for (int c = threadIdx.x / 32; c < TILE_CHANNELS; c += WARPS) {
    const bool inside = first_output + c < conv.out_channels;
    const float* filter =
        weight + (inside ? (int64_t(first_output + c) * conv.in_channels + first_channel) * conv.window() : 0);
    for (int tap = threadIdx.x % 32; tap < taps; tap += 32) {
      copy_or_zero(shared + tap * WEIGHT_PITCH + c, filter + tap, inside);
    }
  }
}

struct Sums {
  float values[THREAD_CHANNELS][THREAD_PIXELS] = {};

  __device__ __forceinline__ void add(const float* weights, const float (&pixels)[THREAD_PIXELS]) {
    const float4 low = *reinterpret_cast<const float4*>(weights), high = *reinterpret_cast<const float4*>(weights + 4);
    const float factors[THREAD_CHANNELS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int c = 0; c < THREAD_CHANNELS; ++c) {
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) values[c][p] = fmaf(factors[c], pixels[p], values[c][p]);
    }
  }
};

// One row of taps. KERNEL_WIDTH > 0: the row of input comes into registers once, by 16-byte reads, and slides.
template <int KERNEL_WIDTH>
__device__ __forceinline__ void add_filter_row(Sums& sums, const float* weights, const float* input, int kernel_width) {
  if constexpr (KERNEL_WIDTH > 0) {
    constexpr int VECTORS = (THREAD_PIXELS + KERNEL_WIDTH - 1 + 3) / 4;
    float row[VECTORS * 4];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4 vector = reinterpret_cast<const float4*>(input)[i];
      row[4 * i] = vector.x;
      row[4 * i + 1] = vector.y;
      row[4 * i + 2] = vector.z;
      row[4 * i + 3] = vector.w;
    }
#pragma unroll
    for (int tap = 0; tap < KERNEL_WIDTH; ++tap) {
      float pixels[THREAD_PIXELS];
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) pixels[p] = row[tap + p];
      sums.add(weights + tap * WEIGHT_PITCH, pixels);
    }
  } else {
    for (int tap = 0; tap < kernel_width; ++tap) {
      float pixels[THREAD_PIXELS];
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) pixels[p] = input[tap + p];
      sums.add(weights + tap * WEIGHT_PITCH, pixels);
    }
  }
}

// Through shared memory, a channel at a time, so that a warp stores whole rows of 32 neighbouring pixels.
__device__ __forceinline__ void store_sums(const Sums& sums, const float* __restrict__ bias, float* __restrict__ out,
                                           float* staging, const Convolution& conv, const TilePosition& at,
                                           int first_output) {
  const int lane = threadIdx.x % 32;
  float4* target = reinterpret_cast<float4*>(staging + lane / 4 * STAGING_PITCH + lane % 4 * THREAD_PIXELS);
  const int rows = at.column + lane < conv.out_width() ? min(TILE_ROWS, conv.out_height() - at.row) : 0;
  const int64_t plane_pixels = int64_t(conv.out_height()) * conv.out_width();
  float* plane = out + (at.sample * conv.out_channels + first_output) * plane_pixels +
                 int64_t(at.row) * conv.out_width() + at.column + lane;
#pragma unroll
  for (int c = 0; c < THREAD_CHANNELS; ++c) {
    const int channel = first_output + c;
    if (channel >= conv.out_channels) return;
    const float added = __ldg(bias + channel);
    const float* v = sums.values[c];
    __syncwarp();
    target[0] = make_float4(v[0] + added, v[1] + added, v[2] + added, v[3] + added);
    target[1] = make_float4(v[4] + added, v[5] + added, v[6] + added, v[7] + added);
    __syncwarp();
    float* pixel = plane;
#pragma unroll
    for (int row = 0; row < TILE_ROWS; ++row, pixel += conv.out_width()) {
      const float value = staging[row * STAGING_PITCH + lane];
      if (row < rows) *pixel = value;
    }
    plane += plane_pixels;
  }
}

// A block's work is a sequence of steps, one per (tile, chunk of input channels).
struct Step {
  int tile, chunk;

  __device__ __forceinline__ Step next(const Convolution& conv) const {
    return chunk + 1 < conv.chunks() ? Step{tile, chunk + 1} : Step{tile + int(gridDim.x), 0};
  }
};

__device__ __forceinline__ void load_step(const float* __restrict__ x, const float* __restrict__ weight, float* stage,
                                          const Convolution& conv, const Step& step, int first_output) {
  if (step.tile < conv.tiles) {
    const int first = step.chunk * conv.chunk_channels;
    const int channels = min(conv.chunk_channels, conv.in_channels - first);
    load_input(x, stage, conv, TilePosition(conv, step.tile), first, channels);
    if (conv.resident_floats == 0) {
      load_weights(weight, stage + conv.input_floats(conv.chunk_channels), conv, first_output, first, channels);
    }
  }
  __pipeline_commit();  // empty past the end, so that the count of groups in flight stays the same
}

template <int KERNEL_WIDTH>
__device__ __forceinline__ void add_chunk(Sums& sums, const float* input, const float* weights, const Convolution& conv,
                                          int channels) {
  const int lane = threadIdx.x % 32;
  weights += threadIdx.x / 32 * THREAD_CHANNELS;
  input += lane / 4 * conv.input_pitch + lane % 4 * THREAD_PIXELS;
  for (int channel = 0; channel < channels; ++channel, input += (TILE_ROWS - 1) * conv.input_pitch) {
    for (int row = 0; row < conv.kernel_height; ++row, input += conv.input_pitch) {
      add_filter_row<KERNEL_WIDTH>(sums, weights, input, conv.kernel_width);
      weights += conv.kernel_width * WEIGHT_PITCH;
    }
  }
}

// Grid: any number of blocks that share the tiles x channel tiles.
template <int KERNEL_WIDTH>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    direct_conv_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                       float* __restrict__ out, Convolution conv) {
  extern __shared__ __align__(16) float shared[];
  float* stages = shared + conv.resident_floats;
  const int first_output = blockIdx.y * TILE_CHANNELS, warp = threadIdx.x / 32;
  if (conv.resident_floats > 0) load_weights(weight, shared, conv, first_output, 0, conv.in_channels);
  Step step{int(blockIdx.x), 0};
  load_step(x, weight, stages, conv, step, first_output);
  Sums sums;
  for (int parity = 0; step.tile < conv.tiles; parity ^= 1) {
    const Step following = step.next(conv);
    load_step(x, weight, stages + (parity ^ 1) * conv.stage_floats, conv, following, first_output);
    __pipeline_wait_prior(1);
    __syncthreads();
    float* stage = stages + parity * conv.stage_floats;
    const float* weights = conv.resident_floats > 0 ? shared : stage + conv.input_floats(conv.chunk_channels);
    const int channels = min(conv.chunk_channels, conv.in_channels - step.chunk * conv.chunk_channels);
    add_chunk<KERNEL_WIDTH>(sums, stage, weights, conv, channels);
    __syncthreads();
    if (following.tile != step.tile) {
      store_sums(sums, bias, out, stage + warp * TILE_ROWS * STAGING_PITCH, conv, TilePosition(conv, step.tile),
                 first_output + warp * THREAD_CHANNELS);
      sums = Sums{};
      __syncthreads();  // the stage is the copies' again
    }
    step = following;
  }
}

}  // namespace

// cudaErrorInvalidValue for filters whose taps of one input channel do not fit in shared memory (about 64 taps).
extern "C" int kbench_direct_conv(const float* x, const float* weight, const float* bias, float* out, int64_t batch,
                                  int64_t in_channels, int64_t height, int64_t width, int64_t out_channels,
                                  int64_t kernel_height, int64_t kernel_width, void* stream) {
  constexpr int64_t LIMIT = (int64_t(1) << 31) - (1 << 20);  // pixels of a plane and tiles are counted in 32 bits
  const bool fits = kernel_height >= 1 && kernel_width >= 1 && kernel_height <= height && kernel_width <= width;
  if (!fits || height * width >= LIMIT || in_channels >= LIMIT) return int(cudaErrorInvalidValue);
  if (kernel_height * kernel_width > SHARED_BYTES || out_channels > TILE_CHANNELS * kbench::MAX_GRID_YZ) {
    return int(cudaErrorInvalidValue);
  }
  Convolution conv{int(in_channels),  int(height),        int(width),
                   int(out_channels), int(kernel_height), int(kernel_width)};
  conv.row_tiles = kbench::ceil_div(conv.out_height(), TILE_ROWS);
  conv.column_tiles = kbench::ceil_div(conv.out_width(), TILE_COLUMNS);
  conv.input_pitch = kbench::ceil_div(TILE_COLUMNS + conv.kernel_width - 1 - 4, 32) * 32 + 4;
  const int64_t tiles = int64_t(conv.row_tiles) * conv.column_tiles * batch;
  if (!conv.plan() || tiles >= LIMIT) return int(cudaErrorInvalidValue);
  if (batch == 0) return int(cudaSuccess);
  conv.tiles = int(tiles);
  int multiprocessors = 0;
  KBENCH_RETURN_IF_ERROR(kbench::device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount));
  const int64_t resident = int64_t(multiprocessors) * BLOCKS_PER_SM;
  const auto kernel = kernel_width == 1   ? direct_conv_kernel<1>
                      : kernel_width == 3 ? direct_conv_kernel<3>
                      : kernel_width == 5 ? direct_conv_kernel<5>
                                          : direct_conv_kernel<0>;
  const dim3 grid{unsigned(tiles < resident ? tiles : resident),
                  unsigned(kbench::ceil_div(out_channels, int64_t(TILE_CHANNELS)))};
  kernel<<<grid, THREADS, conv.shared_bytes(), static_cast<cudaStream_t>(stream)>>>(x, weight, bias, out, conv);
  return kbench::launch_status();
}
