"""Attention over a paged key-value pool in float64: what every paged problem of this family is held to.

One query row at a time and only the rows asked for, so that long sequences cost what the rows looked at cost.
"""

import math

import torch


def paged_decode(q, kv_pool, block_table, seq_lens, sm_scale, rows=None):
    """Attention output and log-sum-exp of one query token a sequence.

    q [batch, q_heads, d]; kv_pool [pages, 2, kv_heads, page, d]; block_table [batch, max_pages]; seq_lens [batch].
    `rows` indexes batch * q_heads. Returns float64 output [len(rows), d] and lse [len(rows)] in base 2; without `rows`, in full shape.
    """
    batch, q_heads, head_dim = q.shape
    wanted = torch.arange(batch * q_heads, device=q.device) if rows is None else rows
    output = torch.zeros(len(wanted), head_dim, dtype=torch.float64, device=q.device)
    lse = torch.full((len(wanted),), -math.inf, dtype=torch.float64, device=q.device)
    group = q_heads // kv_pool.shape[2]
    tokens = {}
    for i, row in enumerate(wanted.tolist()):
        sequence, head = divmod(row, q_heads)
        length = int(seq_lens[sequence])
        if length == 0:
            continue
        place = (sequence, head // group)
        if place not in tokens:
            tokens[place] = gather(kv_pool, block_table[sequence], length, head // group)
        output[i], lse[i] = attend(q[sequence, head].double(), *tokens[place], float(sm_scale))
    if rows is None:
        return output.view(batch, q_heads, head_dim), lse.view(batch, q_heads)
    return output, lse


def gather(kv_pool, pages, length, kv_head):
    """Keys and values of one sequence and head in float64, each [length, d], in the order of its pages."""
    page = kv_pool.shape[3]
    used = pages[: math.ceil(length / page)].long()
    both = kv_pool[used, :, kv_head]                                    # [used pages, 2, page, d]
    keys, values = both.transpose(0, 1).flatten(1, 2)[:, :length].double()
    return keys, values


def attend(query, keys, values, sm_scale):
    """One query against its keys: output [d] and the log-sum-exp in base 2."""
    logits = (keys @ query) * sm_scale
    total = torch.logsumexp(logits, 0)
    return (logits - total).exp() @ values, total / math.log(2)
