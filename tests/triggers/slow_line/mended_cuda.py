"""The same through a tile of shared memory: every warp reads neighbours."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>

__global__ void add_mended(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y, int n) {
    __shared__ float tile[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += 8) tile[i][threadIdx.x] = b[(blockIdx.x * 32 + i) * n + row + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) y[(row + i) * n + column] = a[(row + i) * n + column] + tile[threadIdx.x][i];
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    const int n = static_cast<int>(a.size(0));
    add_mended<<<dim3(n / 32, n / 32), dim3(32, 8), 0, c10::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
extension = load_inline(
    "slow_line_mended", "torch::Tensor add(torch::Tensor a, torch::Tensor b);", SOURCE, functions=["add"]
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.add(a, b)
