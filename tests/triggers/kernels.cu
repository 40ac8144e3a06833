// Pairs of kernels: one made to trigger a rule of analyzers/bottleneck, and its sibling made not to. What each
// must do is in kernels.py, which launches them by name.
#include <cuda_runtime.h>
#include <cstring>

constexpr int N = 1 << 26;               // floats of an array: 256 MiB, four times the L2
constexpr int REGION = (12 << 20) / 16;  // float4 of a region that stays in the L2
constexpr int SMS = 132;

static float *x, *y, *z;

// ---- the grid -------------------------------------------------------------------------------------------------
__global__ void scale_some(const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 2.0f;
}

// one block in 96 works 400 times as long as the others
__device__ void spin(float* out, int steps) {
  float a = threadIdx.x;
  for (int k = 0; k < steps; ++k) a = a * 1.0001f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}
__global__ void uneven_blocks(float* out, int steps) { spin(out, blockIdx.x % 96 ? steps / 400 : steps); }
__global__ void even_blocks(float* out, int steps) { spin(out, steps); }

// ---- memory ---------------------------------------------------------------------------------------------------
__global__ void l2_sweep(const float4* in, float* out, int elements, int passes) {
  float sum = 0.0f;
  int threads = gridDim.x * blockDim.x;
  for (int n = 0; n < passes; ++n) {
#pragma unroll 8
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += threads) {
      float4 v;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"  // past the L1
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(in + i));
      sum += v.x + v.y + v.z + v.w;
    }
  }
  if (sum == 123456.789f) out[0] = sum;
}

__global__ void sum_passes(const float4* in, float* out, int elements, int passes) {
  float sum = 0.0f;
  int threads = gridDim.x * blockDim.x;
  for (int n = 0; n < passes; ++n) {
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += threads) {
      float4 v = __ldcs(in + i);
      sum += v.x + v.y + v.z + v.w;
    }
  }
  if (sum == 123456.789f) out[0] = sum;
}

// ---- warps ----------------------------------------------------------------------------------------------------
// one lane in eight works, or one warp in eight
__global__ void idle_lanes(float* out, int steps) {
  float a = threadIdx.x;
  if ((threadIdx.x & 7) == 0)
    for (int k = 0; k < steps; ++k) a = a * 1.0001f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}
__global__ void idle_warps(float* out, int steps) {
  float a = threadIdx.x;
  if (((threadIdx.x >> 5) & 7) == 0)
    for (int k = 0; k < steps; ++k) a = a * 1.0001f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}

// all warps wait for the first one, again and again
__global__ void one_warp_late(float* out, int steps) {
  __shared__ float said;
  float a = threadIdx.x;
  for (int k = 0; k < steps; ++k) {
    if (threadIdx.x < 32) {
      for (int j = 0; j < 64; ++j) a = a * 1.0001f + 0.5f;
      if (threadIdx.x == 0) said = a;
    }
    __syncthreads();
    a += said;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}

// a chain of loads from shared memory, each address known when the one before is there; no bank conflicts
__global__ void shared_chase(int* out, int steps) {
  __shared__ int next[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) next[i] = (i + 32) & 1023;
  __syncthreads();
  int at = threadIdx.x;
  for (int k = 0; k < steps; ++k) at = next[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------
template <typename T> __device__ void horner(float* out, int steps) {
  T a[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = threadIdx.x + j;
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = a[j] * T(1.0001) + T(0.5);
  T sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += a[j];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void horner_fp64(float* out, int steps) { horner<double>(out, steps); }
__global__ void horner_fp32(float* out, int steps) { horner<float>(out, steps); }

// ---- chains of kernels ----------------------------------------------------------------------------------------
__global__ void scale(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = in[i]; out[i] = make_float4(v.x * 2, v.y * 2, v.z * 2, v.w * 2); }
}
__global__ void shift(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = in[i]; out[i] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1); }
}
__global__ void scale_shift(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = in[i]; out[i] = make_float4(v.x * 2 + 1, v.y * 2 + 1, v.z * 2 + 1, v.w * 2 + 1); }
}
__global__ void touch(float* out) { if (blockIdx.x == 0) out[threadIdx.x] += 1.0f; }

// ---- the door for ctypes --------------------------------------------------------------------------------------
extern "C" const char* prepare() {
  cudaMalloc(&x, N * 4ull); cudaMalloc(&y, N * 4ull); cudaMalloc(&z, N * 4ull);
  cudaMemset(x, 0, N * 4ull); cudaMemset(y, 0, N * 4ull); cudaMemset(z, 0, N * 4ull);
  return cudaGetErrorString(cudaDeviceSynchronize());
}

extern "C" const char* launch(const char* name) {
  auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  const float4 *in = (const float4*)x;
  float4 *out = (float4*)y, *last = (float4*)z;
  const int n = N / 4, blocks = n / 256;
  if (is("small_grid")) scale_some<<<SMS, 128>>>(x, y);
  else if (is("full_grid")) scale_some<<<N / 256, 256>>>(x, y);
  else if (is("uneven_blocks")) uneven_blocks<<<SMS * 16, 256>>>(y, 40000);
  else if (is("even_blocks")) even_blocks<<<SMS * 16, 256>>>(y, 4000);
  else if (is("l2_sweep")) l2_sweep<<<SMS * 2, 1024>>>(in, y, REGION, 40);
  else if (is("dram_sweep")) l2_sweep<<<SMS * 2, 1024>>>(in, y, n, 1);
  else if (is("read_twice")) sum_passes<<<SMS * 8, 256>>>(in, y, n, 2);
  else if (is("read_once")) sum_passes<<<SMS * 8, 256>>>(in, y, n, 1);
  else if (is("idle_lanes")) idle_lanes<<<SMS * 8, 256>>>(y, 20000);
  else if (is("idle_warps")) idle_warps<<<SMS * 8, 256>>>(y, 20000);
  else if (is("one_warp_late")) one_warp_late<<<SMS * 2, 1024>>>(y, 200);
  else if (is("shared_chase")) shared_chase<<<SMS, 256>>>((int*)y, 20000);
  else if (is("horner_fp64")) horner_fp64<<<SMS * 8, 256>>>(y, 2048);
  else if (is("horner_fp32")) horner_fp32<<<SMS * 8, 256>>>(y, 2048);
  else if (is("chain_of_8")) for (int k = 0; k < 8; ++k) touch<<<16, 256>>>(y);
  else if (is("one_of_8")) touch<<<16, 256>>>(y);
  else if (is("two_passes")) { scale<<<blocks, 256>>>(in, last, n); shift<<<blocks, 256>>>(last, out, n); }
  else if (is("one_pass")) scale_shift<<<blocks, 256>>>(in, out, n);
  else return "no such kernel";
  cudaError_t started = cudaGetLastError(), ended = cudaDeviceSynchronize();
  return cudaGetErrorString(started != cudaSuccess ? started : ended);
}
