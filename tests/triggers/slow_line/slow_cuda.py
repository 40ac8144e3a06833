"""One thread an element; the threads of a warp read 32 rows of b. The line that does is marked."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>

__global__ void add_slow(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y, int n) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y;
    const float left = a[row * n + column];
    const float right = b[column * n + row];  // the slow line
    y[row * n + column] = left + right;
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    const int n = static_cast<int>(a.size(0));
    add_slow<<<dim3(n / 256, n), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
extension = load_inline(
    "slow_line_slow", "torch::Tensor add(torch::Tensor a, torch::Tensor b);", SOURCE, functions=["add"]
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.add(a, b)
