"""All sequences at once: pages gathered into one dense tensor, and a mask over its padding."""
import math

import torch


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads = data.kv_pool.shape[2]
    dense = data.kv_pool[data.block_table.long()].permute(2, 0, 3, 1, 4, 5).flatten(3, 4)
    there = torch.arange(dense.shape[3], device=dense.device) < data.seq_lens[:, None]
    keys, values = dense.masked_fill(~there[None, :, None, :, None], 0.0).float()
    queries = data.q.view(batch, kv_heads, -1, head_dim).float()
    logits = torch.einsum("bghd,bgtd->bght", queries, keys) * data.sm_scale
    logits.masked_fill_(~there[:, None, None], -math.inf)
    lse = logits.logsumexp(3)
    weights = (logits - lse[..., None].nan_to_num(neginf=0.0)).exp()      # a sequence without tokens: all weights 0
    output = torch.einsum("bght,bgtd->bghd", weights, values)
    return output.view_as(data.q).to(data.q.dtype), lse.view(batch, q_heads) / math.log(2)
