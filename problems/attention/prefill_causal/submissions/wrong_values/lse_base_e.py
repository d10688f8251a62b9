"""The log-sum-exp is the natural one."""
import math

import torch


def custom_kernel(data):
    (batch, q_len, q_heads, _), (_, kv_len, kv_heads, _) = data.q.shape, data.k.shape
    queries = data.q.float().transpose(1, 2).unflatten(1, (kv_heads, -1))
    keys, values = (t.float().transpose(1, 2)[:, :, None] for t in (data.k, data.v))
    query, token = torch.arange(q_len, device=data.q.device), torch.arange(kv_len, device=data.q.device)
    seen = token <= query[:, None] + kv_len - q_len
    logits = (queries @ keys.mT * data.sm_scale).masked_fill(~seen, -math.inf)
    weights = logits.softmax(4).nan_to_num(0.0)
    data.output.copy_((weights @ values).flatten(1, 2).transpose(1, 2))
    data.lse.copy_((logits.logsumexp(4)).flatten(1, 2).transpose(1, 2))
