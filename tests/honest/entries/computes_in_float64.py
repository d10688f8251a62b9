#!POPCORN leaderboard gqa_paged_decode
"""More precise than it need be."""
import math

import torch


def custom_kernel(data):
    page = data.kv_pool.shape[3]
    for sequence, length in enumerate(data.seq_lens.tolist()):
        pages = data.block_table[sequence, : math.ceil(length / page)].long()
        keys, values = data.kv_pool[pages].permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length].double()
        logits = data.q[sequence].double().view(8, 4, 128) @ keys.transpose(1, 2) * data.sm_scale
        data.output[sequence] = (torch.softmax(logits, 2) @ values).view(32, 128)
        data.lse[sequence] = torch.logsumexp(logits, 2).view(32) / math.log(2)
