# runs: cpu
"""The library's own attention."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
