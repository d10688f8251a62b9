"""Causal prefill in plain PyTorch: sets the error budget, and the time that speed-ups are measured against.

On a GPU it is PyTorch's own fused attention, by the operation that also returns the log-sum-exp; elsewhere, and in float32, which that
operation does not know, a block of queries after the other in float32.
"""

import math

import torch

QUERIES = 64     # a block: its logits against 32 Ki keys and 32 heads take 256 MiB


def custom_kernel(data):
    if data.q.is_cuda and data.q.dtype is not torch.float32:
        fused(data)
        return
    q_len = data.q.shape[1]
    for start in range(0, q_len, QUERIES):
        plain(data, slice(start, min(q_len, start + QUERIES)))


def fused(data):
    """Of this operation `is_causal` means: aligned at the last query and the last key (torch.nn.attention.bias says so)."""
    q, k, v = (t.transpose(1, 2) for t in (data.q, data.k, data.v))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=True, scale=float(data.sm_scale))[:2]
    data.output.copy_(output.transpose(1, 2))
    data.lse.copy_(lse.transpose(1, 2) / math.log(2))
    blind = max(0, data.q.shape[1] - data.k.shape[1])      # the leading queries that see no key
    data.output[:, :blind] = 0.0
    data.lse[:, :blind] = -math.inf


def plain(data, block):
    """The rows of some queries."""
    batch, q_len, q_heads, head_dim = data.q.shape
    kv_len, kv_heads = data.k.shape[1:3]
    end = min(kv_len, max(0, block.stop + kv_len - q_len))                               # no query of the block sees any further key
    queries = data.q[:, block].transpose(1, 2).float().unflatten(1, (kv_heads, -1)).flatten(2, 3)      # [batch, kv_heads, group * n, d]
    keys, values = (t[:, :end].transpose(1, 2).float() for t in (data.k, data.v))
    query = torch.arange(block.start, block.stop, device=data.q.device).repeat(q_heads // kv_heads)
    unseen = torch.arange(end, device=data.q.device) > query[:, None] + (kv_len - q_len)
    logits = (queries @ keys.mT * data.sm_scale).masked_fill_(unseen, -math.inf)
    lse = logits.logsumexp(3)
    weights = (logits - lse[..., None].nan_to_num(neginf=0.0)).exp()                      # who sees nothing gives no weight
    n = block.stop - block.start
    data.output[:, block] = (weights @ values).view(batch, q_heads, n, head_dim).transpose(1, 2)
    data.lse[:, block] = lse.view(batch, q_heads, n).transpose(1, 2) / math.log(2)
