"""CUDA source of the micro-benchmarks' kernels, without headers."""

from __future__ import annotations

CHAINS = 16
"""Independent chains per thread: enough for a latency of four to eight cycles at any occupancy."""

_CHAIN = """
extern "C" __global__ void {name}(unsigned* out, int count) {{
    const {type} a = {a}, b = {b};
    {type} x[{chains}];
    #pragma unroll
    for (int i = 0; i < {chains}; i++) x[i] = {start};
    #pragma unroll 8
    for (int n = 0; n < count; n++) {{
        #pragma unroll
        for (int i = 0; i < {chains}; i++) {step}
    }}
    #pragma unroll
    for (int i = 1; i < {chains}; i++) {join}
    if ({never}) out[0] = 1u;
}}
"""

_SCALAR = {
    "start": "({type})(threadIdx.x + i) * ({type})0.001",
    "join": "x[0] += x[i];",
    # A value that the chains never take, which the compiler cannot know.
    "never": "x[0] == ({type})123456.789",
    "a": "({type})-0.999",
    "b": "({type})0.0317",
}
_HALVES = {
    "start": "0x2E663266u + threadIdx.x * 0x00010003u + i",
    "join": "x[0] ^= x[i];",
    "never": "x[0] == 0x7BCDEF12u && x[1] == 0x12345678u",
    # Not constants to the compiler (count is never negative): with operands in registers it spreads the steps
    # over both pipes that do them, with immediates only one does.
    "a": "0xBBFFBBFFu + (unsigned)(count >> 31)",
    "b": "0x28102810u + (unsigned)(count >> 31)",
}

KINDS = {
    "fp32": ("float", "x[i] = __fmaf_rn(x[i], a, b);", _SCALAR),
    "fp64": ("double", "x[i] = __fma_rn(x[i], a, b);", _SCALAR),
    "fp16": ("unsigned", 'asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x[i]) : "r"(a), "r"(b));', _HALVES),
}
"""Ceiling name -> (type, one step of a chain, the rest of the kernel)."""

OPERATIONS = {"fp32": 2, "fp64": 2, "fp16": 4}
"""FLOP of one step of one chain of one thread."""

_READS = """
extern "C" __global__ void read_l2(unsigned* out, const float4* data, int elements, int count) {
    float sum = 0.0f;
    int threads = gridDim.x * blockDim.x;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int n = 0; n < count; n++) {
        #pragma unroll 8
        for (int i = first; i < elements; i += threads) {
            float x, y, z, w;
            // .cg passes the L1 by
            asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(data + i));
            sum += x + y + z + w;
        }
    }
    if (sum == 123456.789f) out[0] = 1u;
}

extern "C" __global__ void read_shared(unsigned* out, int count) {
    __shared__ float4 cells[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) {
        float v = (float)(i % 251) * 0.001f;
        cells[i].x = v; cells[i].y = v; cells[i].z = v; cells[i].w = v;
    }
    __syncthreads();
    unsigned base = (unsigned)__cvta_generic_to_shared(cells);
    float sum = 0.0f;
    for (int n = 0; n < count; n++) {
        #pragma unroll 4
        for (int i = threadIdx.x; i < 2048; i += blockDim.x) {
            float x, y, z, w;
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(base + i * 16));
            sum += x + y + z + w;
        }
    }
    if (sum == 123456.789f) out[0] = 1u;
}
"""

SHARED_BYTES = 2048 * 16


def source() -> str:
    """The whole source file."""
    parts = [_READS]
    for kind, (type_, step, rest) in KINDS.items():
        fields = {key: text.replace("{type}", type_) for key, text in rest.items()}
        parts.append(_CHAIN.format(name=f"chain_{kind}", type=type_, chains=CHAINS, step=step, **fields))
    return "\n".join(parts)
