import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

kernel_code = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void clamp_at_zero(const float* in, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        out[i] = fmaxf(in[i], 0.f);
    }
}

torch::Tensor relu_cuda(torch::Tensor in) {
    auto count = in.numel();
    auto out = torch::empty_like(in);
    const int threads = 256;
    const int grid = (count + threads - 1) / threads;
    clamp_at_zero<<<grid, threads>>>(in.data_ptr<float>(), out.data_ptr<float>(), count);
    return out;
}
"""

declarations = "torch::Tensor relu_cuda(torch::Tensor in);"

built = load_inline(
    name="relu",
    cpp_sources=declarations,
    cuda_sources=kernel_code,
    functions=["relu_cuda"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.built = built

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.built.relu_cuda(x)
