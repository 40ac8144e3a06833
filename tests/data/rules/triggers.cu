// Kernels made to trigger one rule of analyzers/bottleneck each, and their twins made not to.
// Recorded by record.sh on an H200; the result is triggers_h200.csv.
#include <cstdio>
#include <cuda_bf16.h>
#include <mma.h>

constexpr int N = 1 << 26;

// near the DRAM roof; nothing is read twice
__global__ void stream_copy(const float4* x, float4* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
// a warp's loads touch 32 sectors
__global__ void scattered_load(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[(size_t)(i & 31) * (n / 32) + (i >> 5)];
}
// a tile column is one bank
template <int PAD> __device__ void tile_turn(const float* x, float* y, int w) {
  __shared__ float tile[32][32 + PAD];
  int cx = blockIdx.x * 32, cy = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = x[(size_t)(cy + r) * w + cx + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8) y[(size_t)(cx + r) * w + cy + threadIdx.x] = tile[threadIdx.x][r];
}
__global__ void conflict_transpose(const float* x, float* y, int w) { tile_turn<0>(x, y, w); }
__global__ void padded_transpose(const float* x, float* y, int w) { tile_turn<1>(x, y, w); }
// every block reads the same 16 MiB, past L1
__global__ void cached_sweep(const float4* x, float* y, int n) {
  float s = 0;
#pragma unroll 8
  for (int i = threadIdx.x + (blockIdx.x % 16) * blockDim.x; i < n; i += 16 * blockDim.x) {
    float4 v = __ldcg(x + i);
    s += v.x + v.y + v.z + v.w;
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
// dependent loads: each waits for the one before
__device__ int chase(const int* next, int at, int steps) {
  for (int k = 0; k < steps; ++k) at = next[at];
  return at;
}
__global__ void chase_shared_limited(const int* next, int* out, int steps) {
  extern __shared__ int room[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  room[threadIdx.x] = i;
  out[i] = chase(next, room[threadIdx.x] & 0xffffff, steps);
}
__global__ void chase_small_blocks(const int* next, int* out, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chase(next, i & 0xffffff, steps);
}
__global__ void chase_full(const int* next, int* out, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chase(next, i & 0xffffff, steps);
}
__global__ void __launch_bounds__(256) chase_registers(const int* next, int* out, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int at[96];
#pragma unroll
  for (int k = 0; k < 96; ++k) at[k] = (i * 96 + k) & 0xffffff;
  for (int s = 0; s < steps; ++s) {
#pragma unroll
    for (int k = 0; k < 96; ++k) at[k] = (at[k] * 1664525 + at[(k + 1) % 96]) & 0xffffff;
    at[s % 2] = next[at[0]];
  }
  int sum = 0;
#pragma unroll
  for (int k = 0; k < 96; ++k) sum += at[k];
  out[i] = sum;
}
// eight blocks on a chip of 132 SMs
__global__ void few_blocks_sum(const float* x, float* y, int n) {
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
// one block an SM, one block too many
__global__ void tail_wave(float* y, int steps) {
  extern __shared__ int room[];
  float a = threadIdx.x, b = 1.0001f;
  for (int k = 0; k < steps; ++k) a = a * b + 0.5f;
  y[blockIdx.x * blockDim.x + threadIdx.x] = a + room[0] * 0.0f;
}
// all the arithmetic is FMA; near the fp32 roof
__global__ void fma_loop(float* y, int steps) {
  float a[8];
  for (int j = 0; j < 8; ++j) a[j] = threadIdx.x + j;
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = __fmaf_rn(a[j], 1.0001f, 0.5f);
  float s = 0;
  for (int j = 0; j < 8; ++j) s += a[j];
  y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void unfused_loop(float* y, int steps) {
  float a[8];
  for (int j = 0; j < 8; ++j) a[j] = threadIdx.x + j;
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = __fadd_rn(__fmul_rn(a[j], 1.0001f), 0.5f);
  float s = 0;
  for (int j = 0; j < 8; ++j) s += a[j];
  y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
// fp32 data computed in fp64
__global__ void doubled_loop(float* y, int steps) {
  double a[8];
  for (int j = 0; j < 8; ++j) a[j] = threadIdx.x + j;
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = a[j] * 1.0001 + 0.5;
  double s = 0;
  for (int j = 0; j < 8; ++j) s += a[j];
  y[blockIdx.x * blockDim.x + threadIdx.x] = (float)s;
}
// matrix product on the CUDA cores, and on the tensor cores
__global__ void sgemm_tile(const float* a, const float* b, float* c, int n) {
  __shared__ float as[64][17], bs[16][64];
  int row = threadIdx.y * 4, col = threadIdx.x * 4, t = threadIdx.y * 16 + threadIdx.x;
  float sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    for (int i = t; i < 1024; i += 256) as[i / 16][i % 16] = a[(size_t)(blockIdx.y * 64 + i / 16) * n + k + i % 16];
    for (int i = t; i < 1024; i += 256) bs[i / 64][i % 64] = b[(size_t)(k + i / 64) * n + blockIdx.x * 64 + i % 64];
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += as[row + i][q] * bs[q][col + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) c[(size_t)(blockIdx.y * 64 + row + i) * n + blockIdx.x * 64 + col + j] = sum[i][j];
}
__global__ void wmma_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.0f);
  int row = blockIdx.y * 16, col = (blockIdx.x * 4 + threadIdx.x / 32) * 16;
  for (int k = 0; k < n; k += 16) {
    load_matrix_sync(fa, a + (size_t)row * n + k, n);
    load_matrix_sync(fb, b + (size_t)k * n + col, n);
    mma_sync(fc, fa, fb, fc);
  }
  store_matrix_sync(c + (size_t)row * n + col, fc, n, mem_row_major);
}
// every thread adds to one address, with and without a reduction in the block first
__global__ void atomic_all(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(y + (i & 7), x[i]);
}
__global__ void atomic_block(const float* x, float* y, int n) {
  __shared__ float part[8];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int d = 16; d; d /= 2) s += __shfl_down_sync(~0u, s, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; ++w) s += part[w];
    atomicAdd(y, s);
  }
}
// an array indexed at run time lies in local memory
__global__ void local_array(const float* x, const int* order, float* y, int n) {
  float v[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < 64; ++k) v[order[k] & 63] = x[(i + k * 4096) % n];
  float s = 0;
  for (int k = 0; k < 64; ++k) s += v[(order[k] + i) & 63];
  y[i] = s;
}
__global__ void empty_work(float* y) { if (threadIdx.x == 0 && blockIdx.x == 0) y[0] = 1; }

int main() {
  float *x, *y;
  int *next, *out;
  cudaMalloc(&x, N * 4ull); cudaMalloc(&y, N * 4ull); cudaMalloc(&next, (1 << 24) * 4ull); cudaMalloc(&out, N * 4ull);
  cudaMemset(x, 0, N * 4ull); cudaMemset(y, 0, N * 4ull);
  int* host = new int[1 << 24];
  for (long i = 0; i < (1 << 24); ++i) host[i] = (i * 1664525 + 1013904223) & 0xffffff;
  cudaMemcpy(next, host, (1 << 24) * 4ull, cudaMemcpyHostToDevice);
  cudaFuncSetAttribute(chase_shared_limited, cudaFuncAttributeMaxDynamicSharedMemorySize, 110 << 10);
  cudaFuncSetAttribute(tail_wave, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  stream_copy<<<132 * 16, 512>>>((float4*)x, (float4*)y, N / 4);
  scattered_load<<<N / 256, 256>>>(x, y, N);
  conflict_transpose<<<dim3(256, 256), dim3(32, 8)>>>(x, y, 8192);
  padded_transpose<<<dim3(256, 256), dim3(32, 8)>>>(x, y, 8192);
  cached_sweep<<<132 * 8, 256>>>((float4*)x, y, (16 << 20) / 16);
  chase_shared_limited<<<132 * 8, 128, 110 << 10>>>(next, out, 64);
  chase_small_blocks<<<132 * 128, 32>>>(next, out, 64);
  chase_registers<<<132 * 8, 256>>>(next, out, 64);
  chase_full<<<132 * 8, 1024>>>(next, out, 64);
  few_blocks_sum<<<8, 1024>>>(x, y, N);
  tail_wave<<<133, 256, 200 << 10>>>(y, 20000);
  tail_wave<<<132, 256, 200 << 10>>>(y, 20000);
  fma_loop<<<132 * 8, 256>>>(y, 4096);
  unfused_loop<<<132 * 8, 256>>>(y, 4096);
  doubled_loop<<<132 * 8, 256>>>(y, 4096);
  sgemm_tile<<<dim3(32, 32), dim3(16, 16)>>>(x, x, y, 2048);
  wmma_gemm<<<dim3(32, 128), 128>>>((__nv_bfloat16*)x, (__nv_bfloat16*)x, y, 2048);
  atomic_all<<<N / 256, 256>>>(x, y, N);
  atomic_block<<<132 * 8, 256>>>(x, y, N);
  local_array<<<132 * 64, 256>>>(x, next, y, N);
  empty_work<<<1, 32>>>(y);
  cudaError_t e = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(e));
  return e != cudaSuccess;
}
