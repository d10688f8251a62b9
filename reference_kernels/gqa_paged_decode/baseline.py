"""Paged GQA decode in plain PyTorch: sets the error budget, and the time that speed-ups are measured against.

It gathers every sequence's pages into one dense tensor and computes in float32; nothing is fused.
"""

import math

import torch


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    _, _, kv_heads, page, _ = data.kv_pool.shape
    pages = data.kv_pool.index_select(0, data.block_table.flatten()).unflatten(0, data.block_table.shape)
    there = torch.arange(pages.shape[1] * page, device=data.q.device) < data.seq_lens[:, None]
    pages.masked_fill_(~there.view(batch, -1, 1, 1, page, 1), 0.0)             # what is behind the end may be NaN, and 0 * NaN is NaN
    in_order = pages.permute(2, 0, 3, 1, 4, 5).to(torch.float32, memory_format=torch.contiguous_format)
    keys, values = in_order.flatten(3, 4)                                      # [batch, kv_heads, tokens, d] each
    queries = data.q.float().view(batch, kv_heads, q_heads // kv_heads, head_dim)
    logits = (queries @ keys.mT * data.sm_scale).masked_fill_(~there[:, None, None], -math.inf)
    lse = logits.logsumexp(3)
    weights = (logits - lse[..., None].nan_to_num(neginf=0.0)).exp()           # a sequence without keys: every weight is 0
    data.output.copy_((weights @ values).view(batch, q_heads, head_dim))
    data.lse.copy_(lse.view(batch, q_heads) / math.log(2))
