#!POPCORN leaderboard gqa_paged_decode
"""Paged GQA decode in Triton, by flash decoding: each sequence is split over several programs, and a second kernel merges what they found.

A program serves one sequence, one key-value head with its group of query heads, and one share of the tokens. It walks over them in
blocks, keeping the running maximum, sum and output of the online softmax, all in base 2. How many shares there are follows from shapes
alone, and their memory is kept from call to call, so that a captured graph can replay the two launches.
Where to go from here: sequences differ in length, so equal shares leave programs idle; and pages could be fetched further ahead.
"""

from functools import cache

import torch
import triton
import triton.language as tl

BLOCK = 64          # tokens a step; a page may be smaller or larger
ROWS = 16           # tl.dot wants at least 16 rows: the group of query heads is padded
MOST_SPLITS = 32
LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=["max_pages"])
def decode(q, kv_pool, block_table, seq_lens, parts, part_lse, scale_log2, max_pages, SPLITS: tl.constexpr, PAGE: tl.constexpr,
           KV_HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    split, kv_head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(seq_lens + sequence)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK) * BLOCK
    end = tl.minimum(length, (split + 1) * share)
    head = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    real = head < GROUP
    row = (sequence * KV_HEADS + kv_head) * GROUP + head                # query heads kv_head * GROUP … + GROUP - 1 share kv_head
    queries = tl.load(q + row[:, None] * D + d[None, :], mask=real[:, None], other=0.0)

    top = tl.full([ROWS], -float("inf"), tl.float32)                    # running maximum of the logits
    total = tl.zeros([ROWS], tl.float32)                                # running sum of 2 ** (logit - top)
    mixed = tl.zeros([ROWS, D], tl.float32)                             # running sum of weight * value
    for start in range(split * share, end, BLOCK):
        token = start + tl.arange(0, BLOCK)
        there = token < end                                             # what lies behind the end may be NaN: never load it
        number = tl.load(block_table + sequence * max_pages + token // PAGE, mask=there, other=0).to(tl.int64)
        key_row = ((number * 2 * KV_HEADS + kv_head) * PAGE + token % PAGE) * D       # int64: a real pool passes 2 ** 31 elements
        value_row = key_row + KV_HEADS * PAGE * D
        keys = tl.load(kv_pool + key_row[None, :] + d[:, None], mask=there[None, :], other=0.0)
        values = tl.load(kv_pool + value_row[:, None] + d[None, :], mask=there[:, None], other=0.0)
        logits = tl.dot(queries, keys, input_precision="ieee") * scale_log2           # scaled in float32, not in the query's dtype
        logits = tl.where(there[None, :], logits, -float("inf"))
        new_top = tl.maximum(top, tl.max(logits, axis=1))
        weights = tl.exp2(logits - new_top[:, None])
        rescale = tl.exp2(top - new_top)
        total = total * rescale + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * rescale[:, None], input_precision="ieee")
        top = new_top

    some = total > 0                                                    # a share without tokens
    safe = tl.where(some, total, 1.0)
    part = row * SPLITS + split
    tl.store(parts + part[:, None] * D + d[None, :], mixed / safe[:, None], mask=real[:, None])
    tl.store(part_lse + part, tl.where(some, top + tl.log2(safe), -float("inf")), mask=real)


@triton.jit
def merge(parts, part_lse, output, lse, SPLITS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    d = tl.arange(0, D)
    part = row[:, None] * SPLITS + tl.arange(0, SPLITS)[None, :]
    part_top = tl.load(part_lse + part)
    top = tl.max(part_top, axis=1)
    some = top > -float("inf")                                          # a sequence without tokens: output 0, lse -inf
    weights = tl.exp2(part_top - tl.where(some, top, 0.0)[:, None])
    total = tl.sum(weights, axis=1)
    safe = tl.where(some, total, 1.0)
    mixed = tl.sum(tl.load(parts + part[:, :, None] * D + d[None, None, :]) * weights[:, :, None], axis=1)
    tl.store(output + row[:, None] * D + d[None, :], (mixed / safe[:, None]).to(output.dtype.element_ty))
    tl.store(lse + row, tl.where(some, top + tl.log2(safe), -float("inf")))


@cache
def workspace(rows, splits, head_dim, device):
    """Partial outputs and their log-sum-exps, made at the first call of a shape."""
    return torch.empty(rows, splits, head_dim, device=device), torch.empty(rows, splits, device=device)


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads, page = data.kv_pool.shape[2], data.kv_pool.shape[3]
    wanted = 2048 if data.q.is_cuda else 32                             # programs: more than run at once, so that lengths even out
    splits = min(MOST_SPLITS, triton.next_power_of_2(max(1, wanted // (batch * kv_heads))))
    parts, part_lse = workspace(batch * q_heads, splits, head_dim, data.q.device)
    decode[(splits, kv_heads, batch)](
        data.q, data.kv_pool, data.block_table, data.seq_lens, parts, part_lse, float(data.sm_scale) * LOG2_E, data.block_table.shape[1],
        SPLITS=splits, PAGE=page, KV_HEADS=kv_heads, GROUP=q_heads // kv_heads, D=head_dim, ROWS=ROWS, BLOCK=BLOCK, num_stages=3)
    merge[(batch * kv_heads,)](parts, part_lse, data.output, data.lse, SPLITS=splits, GROUP=q_heads // kv_heads, D=head_dim)
