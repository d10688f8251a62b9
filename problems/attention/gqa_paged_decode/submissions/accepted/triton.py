"""Flash decoding: each sequence is split over several programs, and a second kernel merges their partial results by their lse."""
import torch
import triton
import triton.language as tl

SPLITS = 2
BLOCK = 32
ROWS = 16


@triton.jit
def partial(q, kv_pool, block_table, seq_lens, parts, part_lse, scale_log2, max_pages, page,
            KV_HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(seq_lens + sequence)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK) * BLOCK
    end = tl.minimum(length, (split + 1) * share)
    head, d = tl.arange(0, ROWS), tl.arange(0, D)
    real = head < GROUP
    row = (sequence * KV_HEADS + kv_head) * GROUP + head
    queries = tl.load(q + row[:, None] * D + d[None, :], mask=real[:, None], other=0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, D], tl.float32)
    for start in range(split * share, end, BLOCK):
        token = start + tl.arange(0, BLOCK)
        there = token < end
        number = tl.load(block_table + sequence * max_pages + token // page, mask=there, other=0).to(tl.int64)
        at = ((number * 2 * KV_HEADS + kv_head) * page + token % page)[:, None] * D + d[None, :]
        keys = tl.load(kv_pool + at, mask=there[:, None], other=0.0)
        values = tl.load(kv_pool + at + KV_HEADS * page * D, mask=there[:, None], other=0.0)
        logits = tl.where(there[None, :], tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale_log2, -float("inf"))
        new_top = tl.maximum(top, tl.max(logits, axis=1))
        weights, rescale = tl.exp2(logits - new_top[:, None]), tl.exp2(top - new_top)
        total = total * rescale + tl.sum(weights, axis=1)
        mixed = mixed * rescale[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = new_top
    some = total > 0
    safe = tl.where(some, total, 1.0)
    tl.store(parts + (row[:, None] * SPLITS + split) * D + d[None, :], mixed / safe[:, None], mask=real[:, None])
    tl.store(part_lse + row * SPLITS + split, tl.where(some, top + tl.log2(safe), -float("inf")), mask=real)


@triton.jit
def merge(parts, part_lse, output, lse, ROWS: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    for split in tl.static_range(SPLITS):
        top = tl.maximum(top, tl.load(part_lse + row * SPLITS + split))
    some = top > -float("inf")
    top = tl.where(some, top, 0.0)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, D], tl.float32)
    for split in tl.static_range(SPLITS):
        weight = tl.exp2(tl.load(part_lse + row * SPLITS + split) - top)
        total += weight
        mixed += weight[:, None] * tl.load(parts + (row[:, None] * SPLITS + split) * D + d[None, :])
    safe = tl.where(some, total, 1.0)
    tl.store(output + row[:, None] * D + d[None, :], (mixed / safe[:, None]).to(output.dtype.element_ty))
    tl.store(lse + row, tl.where(some, top + tl.log2(safe), -float("inf")))


def custom_kernel(data):
    batch, q_heads, head_dim = data.q.shape
    kv_heads, page = data.kv_pool.shape[2], data.kv_pool.shape[3]
    parts = torch.empty(batch, q_heads, SPLITS, head_dim, dtype=torch.float32, device=data.q.device)
    part_lse = torch.empty(batch, q_heads, SPLITS, dtype=torch.float32, device=data.q.device)
    partial[(batch, kv_heads, SPLITS)](
        data.q, data.kv_pool, data.block_table, data.seq_lens, parts, part_lse, float(data.sm_scale) * 1.4426950408889634,
        data.block_table.shape[1], page, KV_HEADS=kv_heads, GROUP=q_heads // kv_heads, D=head_dim, SPLITS=SPLITS, ROWS=ROWS, BLOCK=BLOCK)
    merge[(batch * q_heads // ROWS,)](parts, part_lse, data.output, data.lse, ROWS=ROWS, D=head_dim, SPLITS=SPLITS)
