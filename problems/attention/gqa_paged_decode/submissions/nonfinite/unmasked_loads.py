"""Page numbers are loaded under a mask, keys and values without one: what lies behind the end may be NaN, and 0 * NaN is NaN."""

import triton
import triton.language as tl

BLOCK = 64     # tokens a step; a page may be smaller or larger
ROWS = 16      # tl.dot wants at least 16 rows: the group of query heads is padded


@triton.jit
def decode(q, kv_pool, block_table, seq_lens, output, lse, scale_log2, max_pages, page,
           KV_HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    length = tl.load(seq_lens + sequence)
    head = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    real = head < GROUP
    row = (sequence * KV_HEADS + kv_head) * GROUP + head                # query heads kv_head * GROUP … + GROUP - 1 share kv_head
    queries = tl.load(q + row[:, None] * D + d[None, :], mask=real[:, None], other=0.0)

    top = tl.full([ROWS], -float("inf"), tl.float32)                    # running maximum of the logits
    total = tl.zeros([ROWS], tl.float32)                                # running sum of 2 ** (logit - top)
    mixed = tl.zeros([ROWS, D], tl.float32)                             # running sum of weight * value
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        there = token < length                                          # said of the page numbers alone
        number = tl.load(block_table + sequence * max_pages + token // page, mask=there, other=0).to(tl.int64)
        key_row = ((number * 2 * KV_HEADS + kv_head) * page + token % page) * D       # int64: a real pool passes 2 ** 31 elements
        value_row = key_row + KV_HEADS * page * D
        keys = tl.load(kv_pool + key_row[None, :] + d[:, None])
        values = tl.load(kv_pool + value_row[:, None] + d[None, :])
        logits = tl.dot(queries, keys, input_precision="ieee") * scale_log2           # scaled in float32, not in the query's dtype
        logits = tl.where(there[None, :], logits, -float("inf"))
        new_top = tl.maximum(top, tl.max(logits, axis=1))
        weights = tl.exp2(logits - new_top[:, None])
        rescale = tl.exp2(top - new_top)
        total = total * rescale + tl.sum(weights, axis=1)
        mixed = mixed * rescale[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = new_top

    some = total > 0                                                    # a sequence without tokens: output 0, lse -inf
    mixed = tl.where(some[:, None], mixed / total[:, None], 0.0)
    tl.store(output + row[:, None] * D + d[None, :], mixed.to(output.dtype.element_ty), mask=real[:, None])
    tl.store(lse + row, tl.where(some, top + tl.log2(total), -float("inf")), mask=real)


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads, page = data.kv_pool.shape[2], data.kv_pool.shape[3]
    scale_log2 = float(data.sm_scale) * 1.4426950408889634              # log2(e): exp2 is the fast one on a GPU
    decode[(batch, kv_heads)](
        data.q, data.kv_pool, data.block_table, data.seq_lens, data.output, data.lse, scale_log2, data.block_table.shape[1], page,
        KV_HEADS=kv_heads, GROUP=q_heads // kv_heads, D=head_dim, ROWS=ROWS, BLOCK=BLOCK)
