#!POPCORN leaderboard gqa_paged_decode
"""Paged GQA decode in PyTorch: all sequences at once, a few of their pages after the other, by the online softmax.

Nothing depends on what lengths and table hold, so a captured graph can replay it; and gathered pages take little memory at a time.
"""

import math

import torch

TOKENS = 2**13     # of all sequences together, gathered at a time: 64 MiB of keys and values in float32
torch.backends.cuda.matmul.allow_tf32 = True       # TF32 keeps 10 bits behind the point: all that float16 and bfloat16 have


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads, page = data.kv_pool.shape[2], data.kv_pool.shape[3]
    queries = data.q.float().view(batch, kv_heads, q_heads // kv_heads, head_dim)      # head h uses key-value head h // group
    top = torch.full((*queries.shape[:3], 1), -1e30, device=data.q.device)      # running maximum; finite, so that no -inf - -inf arises
    total, mixed = torch.zeros_like(top), torch.zeros_like(queries)             # running sums of weights, and of weight * value
    pages = max(1, TOKENS // (batch * page))
    for first in range(0, data.block_table.shape[1], pages):
        keys, values, there = gathered(data, first, first + pages)
        logits = (queries @ keys.transpose(2, 3)).mul_(data.sm_scale).masked_fill_(~there[:, None, None], -math.inf)
        new_top = torch.maximum(top, logits.amax(3, keepdim=True))
        weights = logits.sub_(new_top).exp_()
        rescale = (top - new_top).exp()
        total = total * rescale + weights.sum(3, keepdim=True)
        mixed = mixed * rescale + weights @ values
        top = new_top
    lse = (top + total.log()) / math.log(2)                                      # in base 2; without a token log(0): -inf
    data.output.copy_((mixed / total.clamp(min=1e-30)).view(batch, q_heads, head_dim))
    data.lse.copy_(lse.view(batch, q_heads))


def gathered(data, first, end):
    """Keys and values of some pages of every sequence, [batch, kv_heads, tokens, d] each in float32, and which tokens are there."""
    numbers = data.block_table[:, first:end].long()
    both = data.kv_pool[numbers].permute(2, 0, 3, 1, 4, 5).flatten(3, 4)
    page = data.kv_pool.shape[3]
    token = first * page + torch.arange(both.shape[3], device=both.device)
    there = token < data.seq_lens[:, None]
    keys, values = both.masked_fill_(~there[None, :, None, :, None], 0.0).float()      # what lies behind the end may be NaN
    return keys, values, there
