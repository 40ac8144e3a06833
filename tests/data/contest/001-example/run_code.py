import time

import torch
from example_cudacode import ModelNew
from example_torchcode import Model, get_init_inputs, get_inputs


def compare_and_time():
    if not torch.cuda.is_available():
        print("CUDA 不可用，请确保您有可用的 NVIDIA GPU 并已正确安装 PyTorch CUDA 版本。")
        return None
    device = torch.device("cuda")

    init = [v.cuda(device=device) if isinstance(v, torch.Tensor) else v for v in get_init_inputs()]
    inputs = [v.cuda(device=device) if isinstance(v, torch.Tensor) else v for v in get_inputs()]

    plain = Model(*init).cuda().eval()
    custom = ModelNew(*init).cuda().eval()

    print("-------------------- 精度对齐验证 --------------------")
    with torch.no_grad():
        expected = plain(*inputs)
        actual = custom(*inputs)
    agree = torch.allclose(expected, actual, rtol=1e-03)
    if agree:
        print("✅ 精度对齐：两个模型的输出结果非常接近。")
    else:
        print("❌ 精度不一致！")

    print("\n-------------------- 性能加速比测试 --------------------")
    repeats = 100

    torch.cuda.synchronize()
    began = time.time()
    for _ in range(repeats):
        _ = plain(*inputs)
    torch.cuda.synchronize()
    plain_seconds = (time.time() - began) / repeats

    torch.cuda.synchronize()
    began = time.time()
    for _ in range(repeats):
        _ = custom(*inputs)
    torch.cuda.synchronize()
    custom_seconds = (time.time() - began) / repeats

    print(f"PyTorch torch.relu 平均执行时间: {plain_seconds:.6f} 秒")
    print(f"自定义 CUDA 内核 平均执行时间: {custom_seconds:.6f} 秒")
    ratio = 0
    if custom_seconds > 0:
        ratio = plain_seconds / custom_seconds
        print(f"加速比 (Speedup): {ratio:.2f}x")
    else:
        print("CUDA 内核执行时间为0，无法计算加速比。")
    return agree, ratio


if __name__ == "__main__":
    agree, ratio = compare_and_time()
