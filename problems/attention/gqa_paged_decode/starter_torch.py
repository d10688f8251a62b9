#!POPCORN leaderboard gqa_paged_decode
"""Paged GQA decode in PyTorch, one sequence after the other: slow, and easy to follow."""

import math


def custom_kernel(data):
    q_heads, kv_heads, page = data.q.shape[1], data.kv_pool.shape[2], data.kv_pool.shape[3]
    for sequence, length in enumerate(data.seq_lens.tolist()):
        if length == 0:                                       # no tokens: output 0, lse -inf
            data.output[sequence] = 0.0
            data.lse[sequence] = -math.inf
            continue
        pages = data.block_table[sequence, : math.ceil(length / page)].long()
        keys, values = tokens(data.kv_pool[pages], length)    # [kv_heads, length, d] each, in float32
        queries = data.q[sequence].float().view(kv_heads, q_heads // kv_heads, -1)     # query head h uses key-value head h // group
        logits = queries @ keys.transpose(1, 2) * data.sm_scale
        data.output[sequence] = (logits.softmax(2) @ values).view(q_heads, -1)
        data.lse[sequence] = logits.logsumexp(2).view(q_heads) / math.log(2)           # in base 2


def tokens(pages, length):
    """Keys and values of `pages` [pages, 2, kv_heads, page, d] in order, without what lies behind the end."""
    keys, values = pages.permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length].float()
    return keys, values
