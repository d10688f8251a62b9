"""Causal prefill: the inputs, the float64 answer, and what is planted in hidden cases and in some of the timed calls."""

import math

import torch
from oracle import causal_prefill

PLANTED_ROWS = 4    # rows that a recipe changes


def make_inputs(case, generator):
    """Normal queries, keys and values."""
    axes, dtype = case.axes, getattr(torch, case.dtype)
    batch, head_dim = axes["batch"], axes["head_dim"]
    q, k, v = (torch.randn(batch, axes[length], axes[heads], head_dim, generator=generator, device=generator.device, dtype=dtype)
               for length, heads in (("q_len", "q_heads"), ("kv_len", "kv_heads"), ("kv_len", "kv_heads")))
    return {"q": q, "k": k, "v": v, "sm_scale": 1 / math.sqrt(head_dim)}


def reference(data, rows=None):
    """Output and lse (base 2) in float64; `rows` indexes batch * q_len * q_heads."""
    output, lse = causal_prefill(data["q"], data["k"], data["v"], data["sm_scale"], rows)
    return {"output": output, "lse": lse}


def row_weights(data):
    """Work of each row: the keys it sees, and one for looking at it at all."""
    batch, q_len, q_heads, _ = data["q"].shape
    seen = _seen(data).clamp(min=0).double() + 1
    return seen[None, :, None].expand(batch, q_len, q_heads).flatten()


def needle(data, case, generator):
    """One token, often far back, has nearly all the weight of a query, and values of its own."""
    rows, places = _places(data, generator)
    for place, seen in places:
        token = _below(seen, generator)
        _set_logit(data, place, token, math.log(seen) + 6)
        _values(data, place, token).copy_(3 * torch.randn(data["q"].shape[3], generator=generator, device=generator.device))
    return rows


def diagonal(data, case, generator):
    """A query's own token has most of its weight; the next one, which it must not see, would have more."""
    rows, places = _places(data, generator)
    for place, seen in places:
        _set_logit(data, place, seen - 1, math.log(seen) + 3)
        if seen < data["k"].shape[1]:
            _set_logit(data, place, seen, math.log(seen) + 6)
            _values(data, place, seen).mul_(3)
    return rows


def sink(data, case, generator):
    """The first token draws most of the weight of a query and gives almost nothing for it."""
    rows, places = _places(data, generator)
    for place, seen in places:
        _set_logit(data, place, 0, math.log(seen) + 2)
        _values(data, place, 0).mul_(0.01)
    return rows


def outlier(data, case, generator):
    """One channel of all keys is 20 times as large as the others, as in trained models, and the values of a few tokens are too."""
    channel = torch.randint(data["k"].shape[3], (1,), generator=generator, device=generator.device)
    data["k"][..., channel] *= 20
    rows, places = _places(data, generator)
    for place, seen in places:
        _values(data, place, _below(seen, generator)).mul_(20)
    return rows


def near_equal(data, case, generator):
    """All keys of a sequence and head are one key and a little noise, so that every token weighs nearly the same."""
    one = data["k"][:, :1].clone()
    data["k"].mul_(0.01).add_(one)
    return _places(data, generator)[0]


def large_logits(data, case, generator):
    """Logits of planted rows reach 150: exp2 of them overflows float32 unless the maximum is taken off."""
    rows, places = _places(data, generator)
    for place, seen in places:
        token = _below(seen, generator)
        _set_logit(data, place, token, 150.0)
        _set_logit(data, place, max(0, token - 1), 149.0)
    return rows


RECIPES = {"needle": needle, "diagonal": diagonal, "sink": sink, "outlier": outlier, "near_equal": near_equal, "large_logits": large_logits}
PLANTED_WHILE_TIMED = tuple(RECIPES)     # none changes how much work there is


def _seen(data):
    """How many keys each query [q_len] sees; 0 or less for one that sees none."""
    q_len, kv_len = data["q"].shape[1], data["k"].shape[1]
    return torch.arange(q_len, device=data["q"].device) + 1 + kv_len - q_len


def _places(data, generator):
    """Some rows (indices of batch * q_len * q_heads) that see a key; for each its sequence, query and head, and how many keys it sees."""
    batch, q_len, q_heads, _ = data["q"].shape
    seeing = min(q_len, data["k"].shape[1])
    count = batch * seeing * q_heads
    drawn = torch.randint(count, (PLANTED_ROWS,), generator=generator, device=generator.device).unique().tolist()
    places = [(i // (seeing * q_heads), q_len - seeing + i // q_heads % seeing, i % q_heads) for i in drawn]
    rows = torch.tensor([(sequence * q_len + query) * q_heads + head for sequence, query, head in places], device=generator.device)
    return rows, [(place, data["k"].shape[1] - q_len + place[1] + 1) for place in places]


def _below(end, generator):
    return int(torch.randint(end, (1,), generator=generator, device=generator.device))


def _kv_head(data, head):
    return head // (data["q"].shape[2] // data["k"].shape[2])


def _values(data, place, token):
    sequence, _, head = place
    return data["v"][sequence, token, _kv_head(data, head)]


def _set_logit(data, place, token, logit):
    """Turn the token's key towards the query, so long that their scaled product is `logit`."""
    sequence, query, head = place
    towards = data["q"][sequence, query, head].float()
    data["k"][sequence, token, _kv_head(data, head)].copy_(towards * (logit / (data["sm_scale"] * towards.square().sum())))
