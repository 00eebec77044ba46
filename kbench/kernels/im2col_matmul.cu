// Convolution (stride 1, no padding) as two kernels: im2col writes every output pixel's window as a column, then a
// tiled fp32 matrix product of the weights with the columns adds the bias on its way out.
//
// The columns are kernel_height * kernel_width times the input: they are made for as many samples at a time as the
// caller gives room for.
#include "launch.cuh"
#include "vector.cuh"

namespace {

struct Convolution {
  int in_channels, height, width;
  int out_channels, kernel_height, kernel_width;

  __host__ __device__ int out_width() const { return width - kernel_width + 1; }
  __host__ __device__ int pixels() const { return (height - kernel_height + 1) * out_width(); }
  __host__ __device__ int taps() const { return in_channels * kernel_height * kernel_width; }
  // Rows of the column matrix start on 16 bytes.
  __host__ __device__ int pitch() const { return kbench::ceil_div(pixels(), 4) * 4; }
};

constexpr int IM2COL_THREADS = 256;

// Grid: (stretches of a row) x input channels x samples. A thread writes the same four neighbouring pixels for every
// tap of its channel, whose input it finds in L1 after the first; past the last pixel, zeros.
__global__ void __launch_bounds__(IM2COL_THREADS)
    im2col_kernel(const float* __restrict__ x, float4* __restrict__ columns, Convolution conv) {
  const int pixel = (blockIdx.x * IM2COL_THREADS + threadIdx.x) * 4;
  if (pixel >= conv.pitch()) return;
  int offsets[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = (pixel + i) / conv.out_width();
    offsets[i] = pixel + i < conv.pixels() ? pixel + i + row * (conv.kernel_width - 1) : -1;
  }
  const int window = conv.kernel_height * conv.kernel_width;
  for (int channel = blockIdx.y; channel < conv.in_channels; channel += gridDim.y) {
    const float* plane = x + (int64_t(blockIdx.z) * conv.in_channels + channel) * conv.height * conv.width;
    const int64_t first_tap = int64_t(blockIdx.z) * conv.taps() + int64_t(channel) * window;
    float4* target = columns + (first_tap * conv.pitch() + pixel) / 4;
    for (int row = 0; row < conv.kernel_height; ++row) {
      for (int column = 0; column < conv.kernel_width; ++column) {
        const float* tap = plane + row * conv.width + column;
        float values[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) values[i] = offsets[i] >= 0 ? __ldg(tap + offsets[i]) : 0.0f;
        *target = make_float4(values[0], values[1], values[2], values[3]);
        target += conv.pitch() / 4;
      }
    }
  }
}

// Tile of the product: 64 output channels x 128 pixels by 128 threads, each 8 x 8 in registers (64 FMAs for 4 16-byte
// reads of shared memory); the reduction in steps of 8 taps, the next step's operands on their way meanwhile.
constexpr int TILE_CHANNELS = 64;
constexpr int TILE_PIXELS = 128;
constexpr int TILE_TAPS = 8;
constexpr int THREADS = 128;
constexpr int WEIGHTS_PER_THREAD = TILE_CHANNELS * TILE_TAPS / THREADS;
constexpr int VECTORS_PER_THREAD = TILE_PIXELS * TILE_TAPS / 4 / THREADS;
static_assert(THREADS == (TILE_CHANNELS / 8) * (TILE_PIXELS / 8), "8 x 8 results per thread");
static_assert(WEIGHTS_PER_THREAD == 4 && VECTORS_PER_THREAD == 2, "the loads below are written out for these");

struct Tile {
  float weights[TILE_TAPS][TILE_CHANNELS + 4];  // transposed; the pad spreads the transposing stores over the banks
  float4 columns[TILE_TAPS][TILE_PIXELS / 4];
};

// One step's operands in registers, between global and shared memory.
struct Step {
  float weights[WEIGHTS_PER_THREAD];
  float4 columns[VECTORS_PER_THREAD];

  __device__ __forceinline__ void load(const float* weight, const float4* column_matrix, const Convolution& conv,
                                       int first_channel, int first_pixel, int first_tap) {
    const int channel = first_channel + threadIdx.x / 2, tap = first_tap + threadIdx.x % 2 * WEIGHTS_PER_THREAD;
#pragma unroll
    for (int i = 0; i < WEIGHTS_PER_THREAD; ++i) {
      const bool inside = channel < conv.out_channels && tap + i < conv.taps();
      weights[i] = inside ? __ldg(weight + int64_t(channel) * conv.taps() + tap + i) : 0.0f;
    }
    const int pixel = first_pixel + threadIdx.x % 32 * 4;
#pragma unroll
    for (int i = 0; i < VECTORS_PER_THREAD; ++i) {
      const int row = first_tap + threadIdx.x / 32 + i * (THREADS / 32);
      const bool inside = row < conv.taps() && pixel < conv.pitch();
      columns[i] = inside ? __ldg(column_matrix + (int64_t(row) * conv.pitch() + pixel) / 4) : float4{};
    }
  }

  __device__ __forceinline__ void store(Tile& tile) const {
#pragma unroll
    for (int i = 0; i < WEIGHTS_PER_THREAD; ++i) {
      tile.weights[threadIdx.x % 2 * WEIGHTS_PER_THREAD + i][threadIdx.x / 2] = weights[i];
    }
#pragma unroll
    for (int i = 0; i < VECTORS_PER_THREAD; ++i) {
      tile.columns[threadIdx.x / 32 + i * (THREADS / 32)][threadIdx.x % 32] = columns[i];
    }
  }
};

// A thread's 8 channels are two runs of 4, and so are its 8 pixels: neighbouring threads read neighbouring vectors.
struct Sums {
  float values[8][8] = {};

  __device__ __forceinline__ void accumulate(const Tile& tile, int channel_vector, int pixel_vector) {
#pragma unroll
    for (int tap = 0; tap < TILE_TAPS; ++tap) {
      const float4* line = reinterpret_cast<const float4*>(tile.weights[tap]);
      const float4 w0 = line[channel_vector], w1 = line[channel_vector + TILE_CHANNELS / 8];
      const float4 c0 = tile.columns[tap][pixel_vector], c1 = tile.columns[tap][pixel_vector + TILE_PIXELS / 8];
      const float weights[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
      const float pixels[8] = {c0.x, c0.y, c0.z, c0.w, c1.x, c1.y, c1.z, c1.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) values[i][j] = fmaf(weights[i], pixels[j], values[i][j]);
      }
    }
  }
};
static_assert((TILE_CHANNELS + 4) % 4 == 0, "rows of transposed weights start on 16 bytes");

__device__ __forceinline__ void store_results(const Sums& sums, const float* bias, float* out, const Convolution& conv,
                                              int channel, int pixel) {
  const bool vectors = conv.pixels() % 4 == 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = channel + i % 4 + i / 4 * (TILE_CHANNELS / 2);
    if (row >= conv.out_channels) continue;
    const float added = __ldg(bias + row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = pixel + half * (TILE_PIXELS / 2);
      float* target = out + int64_t(row) * conv.pixels() + first;
      const float* values = sums.values[i] + half * 4;
      if (vectors && first < conv.pixels()) {
        *reinterpret_cast<float4*>(target) =
            make_float4(values[0] + added, values[1] + added, values[2] + added, values[3] + added);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (first + j < conv.pixels()) target[j] = values[j] + added;
        }
      }
    }
  }
}

// Grid: pixel tiles x channel tiles x samples.
__global__ void __launch_bounds__(THREADS)
    matmul_kernel(const float* __restrict__ weight, const float* __restrict__ columns, const float* __restrict__ bias,
                  float* __restrict__ out, Convolution conv) {
  __shared__ __align__(16) Tile tiles[2];
  const int first_channel = blockIdx.y * TILE_CHANNELS, first_pixel = blockIdx.x * TILE_PIXELS;
  const int channel_vector = threadIdx.x / (TILE_PIXELS / 8), pixel_vector = threadIdx.x % (TILE_PIXELS / 8);
  const float4* sample =
      reinterpret_cast<const float4*>(columns + int64_t(blockIdx.z) * conv.taps() * conv.pitch());
  Step step;
  Sums sums;
  step.load(weight, sample, conv, first_channel, first_pixel, 0);
  step.store(tiles[0]);
  __syncthreads();
  int current = 0;
  for (int tap = TILE_TAPS; tap < conv.taps(); tap += TILE_TAPS, current ^= 1) {
    step.load(weight, sample, conv, first_channel, first_pixel, tap);
    sums.accumulate(tiles[current], channel_vector, pixel_vector);
    step.store(tiles[current ^ 1]);
    __syncthreads();
  }
  sums.accumulate(tiles[current], channel_vector, pixel_vector);
  store_results(sums, bias, out + int64_t(blockIdx.z) * conv.out_channels * conv.pixels(), conv,
                first_channel + channel_vector * 4, first_pixel + pixel_vector * 4);
}

int run_samples(const float* x, const float* weight, const float* bias, float* columns, float* out,
                const Convolution& conv, unsigned samples, cudaStream_t stream) {
  const int64_t channels = conv.in_channels < kbench::MAX_GRID_YZ ? conv.in_channels : kbench::MAX_GRID_YZ;
  const dim3 column_blocks(unsigned(kbench::ceil_div(conv.pitch(), IM2COL_THREADS * 4)), unsigned(channels), samples);
  im2col_kernel<<<column_blocks, IM2COL_THREADS, 0, stream>>>(x, reinterpret_cast<float4*>(columns), conv);
  KBENCH_RETURN_IF_ERROR(cudaGetLastError());
  const dim3 tiles(unsigned(kbench::ceil_div(conv.pixels(), TILE_PIXELS)),
                   unsigned(kbench::ceil_div(conv.out_channels, TILE_CHANNELS)), samples);
  matmul_kernel<<<tiles, THREADS, 0, stream>>>(weight, columns, bias, out, conv);
  return kbench::launch_status();
}

}  // namespace

// columns: room for samples_at_a_time x taps x pitch floats (pitch: output pixels rounded up to a multiple of 4),
// aligned to 16 bytes, as must be `out`.
extern "C" int kbench_im2col_matmul(const float* x, const float* weight, const float* bias, float* columns, float* out,
                                    int64_t batch, int64_t in_channels, int64_t height, int64_t width,
                                    int64_t out_channels, int64_t kernel_height, int64_t kernel_width,
                                    int64_t samples_at_a_time, void* stream) {
  constexpr int64_t LIMIT = (int64_t(1) << 31) - 1024;  // an image, and a filter, are indexed by 32 bits
  const bool fits = kernel_height >= 1 && kernel_width >= 1 && kernel_height <= height && kernel_width <= width;
  const bool small = height * width < LIMIT && in_channels * kernel_height * kernel_width < LIMIT &&
                     out_channels <= TILE_CHANNELS * kbench::MAX_GRID_YZ;
  const bool aligned =
      kbench::is_aligned(columns, kbench::VECTOR_BYTES) && kbench::is_aligned(out, kbench::VECTOR_BYTES);
  if (!fits || !small || !aligned || samples_at_a_time < 1) return int(cudaErrorInvalidValue);
  const Convolution conv{int(in_channels),  int(height),        int(width),
                         int(out_channels), int(kernel_height), int(kernel_width)};
  const int64_t most = samples_at_a_time < kbench::MAX_GRID_YZ ? samples_at_a_time : kbench::MAX_GRID_YZ;
  for (int64_t first = 0; first < batch; first += most) {
    const unsigned samples = unsigned(batch - first < most ? batch - first : most);
    KBENCH_RETURN_IF_ERROR(static_cast<cudaError_t>(
        run_samples(x + first * in_channels * height * width, weight, bias, columns,
                    out + first * out_channels * conv.pixels(), conv, samples, static_cast<cudaStream_t>(stream))));
  }
  return int(cudaSuccess);
}
