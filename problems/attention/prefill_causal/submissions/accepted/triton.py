#!POPCORN leaderboard prefill_causal
"""Causal prefill in Triton, by flash attention: one program for a block of queries of one head, which walks over the keys it may see.

It keeps the running maximum, sum and output of the online softmax, all in base 2. Blocks of keys that every query of the program sees go
first and need no mask; those around the diagonal and the end follow, masked. The blocks with the most keys start first.
Where to go from here: tensor memory access and warp specialisation keep the tensor cores busy while the softmax is computed.
"""

import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def step(start, queries, k, v, last, top, total, mixed, scale_log2, kv_len, stride, d,
         BLOCK: tl.constexpr, MASKED: tl.constexpr):
    token = start + tl.arange(0, BLOCK)
    at = token.to(tl.int64) * stride
    there = token < kv_len
    keys = tl.load(k + at[None, :] + d[:, None], mask=there[None, :], other=0.0) if MASKED else tl.load(k + at[None, :] + d[:, None])
    logits = tl.dot(queries, keys, input_precision="ieee") * scale_log2           # scaled in float32, not in the query's dtype
    if MASKED:
        logits = tl.where(token[None, :] <= last[:, None], logits, -float("inf"))
    new_top = tl.maximum(top, tl.max(logits, axis=1))
    safe_top = tl.where(new_top == -float("inf"), 0.0, new_top) if MASKED else new_top     # a query that sees nothing yet
    weights = tl.exp2(logits - safe_top[:, None])
    rescale = tl.exp2(top - safe_top)
    total = total * rescale + tl.sum(weights, axis=1)
    # Behind the end anything may lie, and 0 * NaN is NaN.
    values = tl.load(v + at[:, None] + d[None, :], mask=there[:, None], other=0.0) if MASKED else tl.load(v + at[:, None] + d[None, :])
    mixed = tl.dot(weights.to(values.dtype), values, mixed * rescale[:, None], input_precision="ieee")
    return new_top, total, mixed


@triton.jit(do_not_specialize=["q_len", "kv_len", "q_heads", "kv_heads"])      # one compilation for all shapes
def prefill(q, k, v, output, lse, scale_log2, q_len, kv_len, q_heads, kv_heads,
            D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head, sequence = tl.program_id(1), tl.program_id(2)
    query = block * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    real = query < q_len
    row = (sequence.to(tl.int64) * q_len + query) * q_heads + head
    queries = tl.load(q + row[:, None] * D + d[None, :], mask=real[:, None], other=0.0)
    stride = kv_heads * D
    first = (sequence.to(tl.int64) * kv_len * kv_heads + head // (q_heads // kv_heads)) * D
    last = query + kv_len - q_len                                       # the newest key that each query sees; below 0: none

    top = tl.full([ROWS], -float("inf"), tl.float32)                    # running maximum of the logits
    total = tl.zeros([ROWS], tl.float32)                                # running sum of 2 ** (logit - top)
    mixed = tl.zeros([ROWS, D], tl.float32)                             # running sum of weight * value
    seen_by_all = tl.maximum(0, tl.minimum(kv_len, block * ROWS + kv_len - q_len + 1)) // BLOCK * BLOCK
    seen_by_any = tl.minimum(kv_len, (block + 1) * ROWS + kv_len - q_len)
    for start in range(0, seen_by_all, BLOCK):
        top, total, mixed = step(start, queries, k + first, v + first, last, top, total, mixed, scale_log2, kv_len, stride, d, BLOCK, False)
    for start in range(seen_by_all, seen_by_any, BLOCK):
        top, total, mixed = step(start, queries, k + first, v + first, last, top, total, mixed, scale_log2, kv_len, stride, d, BLOCK, True)

    some = total > 0                                                    # a query that sees nothing: output 0, lse -inf
    safe = tl.where(some, total, 1.0)
    tl.store(output + row[:, None] * D + d[None, :], (mixed / safe[:, None]).to(output.dtype.element_ty), mask=real[:, None])
    tl.store(lse + row, tl.where(some, top + tl.log2(safe), -float("inf")), mask=real)


def custom_kernel(data):
    batch, q_len, q_heads, head_dim = data.q.shape
    kv_len, kv_heads = data.k.shape[1:3]
    rows, block, warps = (128, 64, 8) if data.q.is_cuda else (64, 64, 4)
    prefill[(triton.cdiv(q_len, rows), q_heads, batch)](
        data.q, data.k, data.v, data.output, data.lse, float(data.sm_scale) * LOG2_E, q_len, kv_len, q_heads, kv_heads,
        D=head_dim, ROWS=rows, BLOCK=block, num_warps=warps, num_stages=3)
