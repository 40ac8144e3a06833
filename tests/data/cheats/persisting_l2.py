# expect: doubt persisting-l2
# runs: gpu
"""Sets cache aside in which its inputs stay through every flush."""

from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__global__ void cheats_clamp(float* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = out[i] > 0 ? out[i] : 0;
}

torch::Tensor keep_and_clamp(torch::Tensor product) {
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 32 << 20);
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = product.data_ptr();
    window.accessPolicyWindow.num_bytes = product.nbytes();
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    auto stream = at::cuda::getCurrentCUDAStream();
    cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
    long n = product.numel();
    cheats_clamp<<<(n + 255) / 256, 256, 0, stream>>>(product.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return product;
}
"""
module = load_inline(
    name="profkit_cheats_persisting",
    cpp_sources="torch::Tensor keep_and_clamp(torch::Tensor product);",
    cuda_sources=SOURCE,
    functions=["keep_and_clamp"],
)


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return module.keep_and_clamp(x @ self.weight)
