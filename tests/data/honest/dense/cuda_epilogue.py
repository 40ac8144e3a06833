# runs: gpu
"""Bias and GELU in a kernel of its own."""

from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void honest_bias_gelu(const float* in, const float* bias, float* out, long n, int columns) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) {
        float y = in[i] + bias[i % columns];
        out[i] = 0.5f * y * (1.0f + erff(y * 0.70710678f));
    }
}

torch::Tensor bias_gelu(torch::Tensor in, torch::Tensor bias) {
    TORCH_CHECK(in.scalar_type() == torch::kFloat32 && in.is_contiguous());
    auto out = torch::empty_like(in);
    long n = in.numel();
    honest_bias_gelu<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        in.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), n, in.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
module = load_inline(
    name="profkit_honest_bias_gelu",
    cpp_sources="torch::Tensor bias_gelu(torch::Tensor in, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["bias_gelu"],
)


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return module.bias_gelu(x @ self.weight, self.bias)
