"""Paged GQA decode in plain PyTorch: sets the error budget, and the time that speed-ups are measured against.

It gathers every sequence's pages into one dense tensor and computes in float32; nothing is fused.
"""

import math

import torch


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads = data.kv_pool.shape[2]
    pages = data.kv_pool[data.block_table.long()]                              # [batch, max_pages, 2, kv_heads, page, d]
    keys, values = pages.permute(2, 0, 3, 1, 4, 5).flatten(3, 4).float()       # [batch, kv_heads, tokens, d] each
    there = torch.arange(keys.shape[2], device=keys.device) < data.seq_lens[:, None]
    values = values.masked_fill(~there[:, None, :, None], 0.0)                 # 0 * NaN would be NaN
    queries = data.q.float().view(batch, kv_heads, q_heads // kv_heads, head_dim)
    logits = (queries @ keys.transpose(2, 3) * data.sm_scale).masked_fill(~there[:, None, None], -torch.inf)
    lse = logits.logsumexp(3)
    weights = (logits - lse[..., None]).exp().nan_to_num(0.0)                  # a sequence without keys: exp(-inf - -inf)
    data.output.copy_((weights @ values).view(batch, q_heads, head_dim))
    data.lse.copy_(lse.view(batch, q_heads) / math.log(2))
