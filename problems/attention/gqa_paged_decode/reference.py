"""Paged GQA decode: the inputs, the float64 answer, and what is planted in hidden cases and in some of the timed calls."""

import math

import torch
from oracle import paged_decode

SPARE = 2      # pages of NaN, the first and the last: table entries past a sequence's last page point there, and so does a load of a page
               # number that is masked to 0, so that whoever then reads keys or values without a mask is seen on every input
PLANTED_ROWS = 4    # rows that a recipe changes


def make_inputs(case, generator):
    """Normal queries, keys and values; lengths as the case says; pages in random order, the leading `shared` ones common to all."""
    axes, dtype, device = case.axes, getattr(torch, case.dtype), generator.device
    batch, page = axes["batch"], axes["page"]
    seq_lens = _lengths(case.extra["lengths"], batch, generator)
    max_pages = max(1, math.ceil(_longest(case.extra["lengths"]) / page))
    pages = batch * max_pages + SPARE
    block_table = _table(seq_lens, page, (batch, max_pages), case.extra["shared"], generator)
    q = torch.randn(batch, axes["q_heads"], axes["head_dim"], generator=generator, device=device)
    kv_pool = torch.randn(pages, 2, axes["kv_heads"], page, axes["head_dim"], generator=generator, device=device, dtype=dtype)
    kv_pool[0] = kv_pool[-1] = torch.nan
    data = {"q": q.to(dtype), "kv_pool": kv_pool, "block_table": block_table.int(), "seq_lens": seq_lens.int(),
            "sm_scale": 1 / math.sqrt(axes["head_dim"]), "pages": pages, "max_pages": max_pages}
    return data | {"distinct_kv": int(_used_slots(data).sum())}


def reference(data, rows=None):
    """Output and lse (base 2) in float64; `rows` indexes batch * q_heads."""
    output, lse = paged_decode(data["q"], data["kv_pool"], data["block_table"], data["seq_lens"], data["sm_scale"], rows)
    return {"output": output, "lse": lse}


def row_weights(data):
    """Work of each row: its keys, and one for looking at it at all."""
    return (data["seq_lens"].double() + 1).repeat_interleave(data["q"].shape[1])


def nan_in_unused(data, case, generator):
    """NaN in every slot of the pool that no sequence uses, the rest of its last page among them."""
    used = _used_slots(data)
    data["kv_pool"].masked_fill_(~used[:, None, None, :, None], torch.nan)
    return _rows_with_keys(data, generator)


def needle(data, case, generator):
    """One token, often far back, has nearly all the weight of a query, and values of its own."""
    rows = _rows_with_keys(data, generator)
    for sequence, head, length in _places(data, rows):
        token = int(torch.randint(length, (1,), generator=generator, device=generator.device))
        _set_logit(data, sequence, head, token, math.log(length) + 6)
        _values(data, sequence, head, token).copy_(3 * torch.randn(data["q"].shape[2], generator=generator, device=generator.device))
    return rows


def sink(data, case, generator):
    """The first token draws most of the weight of a query and gives almost nothing for it."""
    rows = _rows_with_keys(data, generator)
    for sequence, head, length in _places(data, rows):
        _set_logit(data, sequence, head, 0, math.log(length) + 2)
        _values(data, sequence, head, 0).mul_(0.01)
    return rows


def outlier(data, case, generator):
    """One channel of all keys is 20 times as large as the others, as in trained models, and the values of a few tokens are too."""
    channel = int(torch.randint(data["q"].shape[2], (1,), generator=generator, device=generator.device))
    data["kv_pool"][:, 0, :, :, channel] *= 20
    rows = _rows_with_keys(data, generator)
    for sequence, head, length in _places(data, rows):
        token = int(torch.randint(length, (1,), generator=generator, device=generator.device))
        _values(data, sequence, head, token).mul_(20)
    return rows


def near_equal(data, case, generator):
    """All keys of the pool are one key and a little noise, so that every token weighs nearly the same."""
    keys = data["kv_pool"][1:-1, 0]
    one = keys[0, :, :1].clone()
    keys.mul_(0.01).add_(one)
    return _rows_with_keys(data, generator)


def large_logits(data, case, generator):
    """Logits of planted rows reach 150: exp2 of them overflows float32 unless the maximum is taken off."""
    rows = _rows_with_keys(data, generator)
    for sequence, head, length in _places(data, rows):
        token = int(torch.randint(length, (1,), generator=generator, device=generator.device))
        _set_logit(data, sequence, head, token, 150.0)
        _set_logit(data, sequence, head, max(0, token - 1), 149.0)
    return rows


RECIPES = {"nan_in_unused": nan_in_unused, "needle": needle, "sink": sink, "outlier": outlier, "near_equal": near_equal,
           "large_logits": large_logits}
# None changes how much work there is; NaN in unused places is nothing new where every page is full, as in most timed cases.
PLANTED_WHILE_TIMED = tuple(name for name in RECIPES if name != "nan_in_unused")


def _longest(lengths):
    return lengths["fixed"] if "fixed" in lengths else max(lengths["uniform"] if "uniform" in lengths else lengths["choice"])


def _lengths(lengths, batch, generator):
    if "fixed" in lengths:
        return torch.full((batch,), lengths["fixed"], device=generator.device)
    if "uniform" in lengths:
        low, high = lengths["uniform"]
        return torch.randint(low, high + 1, (batch,), generator=generator, device=generator.device)
    choice = torch.tensor(lengths["choice"], device=generator.device)
    drawn = torch.randint(len(choice), (batch,), generator=generator, device=generator.device)
    return choice[drawn]


def _table(seq_lens, page, shape, shared, generator):
    """Page numbers [batch, max_pages] in random order; entries past a sequence's last page name a spare page."""
    batch, max_pages = shape
    table = 1 + torch.randperm(batch * max_pages, generator=generator, device=generator.device).view(shape)
    table[:, :shared] = table[:1, :shared].clone()
    used = torch.arange(max_pages, device=table.device) < (seq_lens[:, None] + page - 1) // page
    return torch.where(used, table, torch.arange(max_pages, device=table.device) % SPARE * (batch * max_pages + SPARE - 1))


def _used_slots(data):
    """Which slots [pages, page] of the pool hold a token of any sequence."""
    pool, table, lengths = data["kv_pool"], data["block_table"].long(), data["seq_lens"]
    pages, page = pool.shape[0], pool.shape[3]
    token = torch.arange(table.shape[1] * page, device=pool.device)
    slots = table.repeat_interleave(page, 1) * page + token % page
    used = torch.zeros(pages * page + 1, dtype=torch.bool, device=pool.device)
    used[torch.where(token < lengths[:, None], slots, pages * page)] = True      # a place of its own for what no sequence has
    return used[:-1].view(pages, page)


def _rows_with_keys(data, generator):
    """Up to PLANTED_ROWS rows (indices of batch * q_heads) of sequences that hold a token."""
    heads = data["q"].shape[1]
    candidates = (data["seq_lens"] > 0).repeat_interleave(heads).nonzero().flatten()
    return candidates[torch.randperm(len(candidates), generator=generator, device=generator.device)[:PLANTED_ROWS]]


def _places(data, rows):
    """Sequence, head and length of each row."""
    heads = data["q"].shape[1]
    return [(row // heads, row % heads, int(data["seq_lens"][row // heads])) for row in rows.tolist()]


def _slot(data, sequence, head, token):
    """Page, key-value head and place in the page of one token, as a query head sees it."""
    page = data["kv_pool"].shape[3]
    group = data["q"].shape[1] // data["kv_pool"].shape[2]
    return int(data["block_table"][sequence, token // page]), head // group, token % page


def _values(data, sequence, head, token):
    page, kv_head, place = _slot(data, sequence, head, token)
    return data["kv_pool"][page, 1, kv_head, place]


def _set_logit(data, sequence, head, token, logit):
    """Turn the token's key towards the query, so long that their scaled product is `logit`."""
    page, kv_head, place = _slot(data, sequence, head, token)
    query = data["q"][sequence, head].float()
    data["kv_pool"][page, 0, kv_head, place].copy_(query * (logit / (data["sm_scale"] * query.square().sum())))
