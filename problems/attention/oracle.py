"""Attention in float64: what every problem of this family is held to.

Only the rows asked for are computed, so that long sequences cost what the rows looked at cost. Rows go in chunks whose size follows from
shapes alone: temporaries stay within WORKING_BYTES, and on a GPU nothing waits for a value.
"""

import math

import torch

WORKING_BYTES = 2**30    # of float64 keys, values or logits at a time, and what they are made from


def paged_decode(q, kv_pool, block_table, seq_lens, sm_scale, rows=None):
    """Attention output and log-sum-exp of one query token a sequence.

    q [batch, q_heads, d]; kv_pool [pages, 2, kv_heads, page, d]; block_table [batch, max_pages]; seq_lens [batch].
    `rows` indexes batch * q_heads. Returns float64 output [len(rows), d] and lse [len(rows)] in base 2; without `rows`, in full shape.
    """
    batch, q_heads, head_dim = q.shape
    kv_heads, page = kv_pool.shape[2:4]
    wanted = torch.arange(batch * q_heads, device=q.device) if rows is None else rows
    tokens = block_table.shape[1] * page
    at_once = max(1, WORKING_BYTES // (tokens * 2 * head_dim * 12))      # in float64, and as gathered
    parts = []
    for some in wanted.split(at_once):
        sequence, head = some // q_heads, some % q_heads
        seen = torch.arange(tokens, device=q.device) < seq_lens[sequence, None]
        keys, values = gather(kv_pool, block_table[sequence], head // (q_heads // kv_heads), seen)
        output, lse = attend(q[sequence, head][:, None].double(), keys, values, seen[:, None], sm_scale)
        parts.append((output[:, 0], lse[:, 0]))
    output, lse = (torch.cat(part) for part in zip(*parts, strict=True))
    if rows is None:
        return output.view(batch, q_heads, head_dim), lse.view(batch, q_heads)
    return output, lse


def causal_prefill(q, k, v, sm_scale, rows=None):
    """Attention output and log-sum-exp of the newest q_len tokens of each sequence, each of which sees itself and what came before.

    q [batch, q_len, q_heads, d]; k and v [batch, kv_len, kv_heads, d]: query i is token kv_len - q_len + i and sees all up to itself.
    `rows` indexes batch * q_len * q_heads. Returns float64 output [len(rows), d] and lse [len(rows)] in base 2; without `rows`, in full
    shape.
    """
    batch, q_len, q_heads, head_dim = q.shape
    kv_len, kv_heads = k.shape[1:3]
    wanted = torch.arange(batch * q_len * q_heads, device=q.device) if rows is None else rows
    output = torch.zeros(len(wanted), head_dim, dtype=torch.float64, device=q.device)
    lse = torch.full((len(wanted),), -math.inf, dtype=torch.float64, device=q.device)
    place = wanted // (q_len * q_heads) * kv_heads + wanted % q_heads // (q_heads // kv_heads)     # rows of one place share their keys
    last = wanted // q_heads % q_len + kv_len - q_len
    queries, token = q.reshape(-1, head_dim), torch.arange(kv_len, device=q.device)
    for number in range(batch * kv_heads):
        sequence, kv_head = divmod(number, kv_heads)
        keys, values = k[sequence, :, kv_head].double(), v[sequence, :, kv_head].double()
        mine = (place == number).nonzero().flatten()
        for some in mine.split(max(1, WORKING_BYTES // (kv_len * 32))):
            seen = token <= last[some, None]
            output[some], lse[some] = attend(queries[wanted[some]].double(), keys, values, seen, sm_scale)
    if rows is None:
        return output.view(q.shape), lse.view(q.shape[:3])
    return output, lse


def gather(kv_pool, pages, kv_heads, seen):
    """Keys and values of some sequences in float64, each [len(pages), tokens, d], in the order of their pages.

    pages [n, max_pages] of a head kv_heads [n] each; what is not `seen` [n, tokens] may hold anything, and comes back as 0.
    """
    both = kv_pool[pages.long(), :, kv_heads[:, None]]                            # [n, max_pages, 2, page, d]
    there = seen.view(len(pages), pages.shape[1], 1, kv_pool.shape[3], 1)
    in_order = both.masked_fill_(~there, 0.0).transpose(1, 2).to(torch.float64, memory_format=torch.contiguous_format)
    return in_order.flatten(2, 3).unbind(1)


def attend(queries, keys, values, seen, sm_scale):
    """Queries [..., n, d] against keys and values [..., tokens, d] of which each sees some: output and the log-sum-exp in base 2."""
    logits = (queries @ keys.mT * float(sm_scale)).masked_fill_(~seen, -math.inf)
    total = logits.logsumexp(-1)
    weights = (logits - total[..., None].nan_to_num(neginf=0.0)).exp()            # who sees nothing gives no weight
    return weights @ values, total / math.log(2)
