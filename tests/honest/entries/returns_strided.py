#!POPCORN leaderboard row_softmax
"""Returns a tensor of the right shape whose memory lies column by column."""
import torch


def custom_kernel(data):
    by_column = torch.softmax(data.x.float().t().contiguous(), dim=0).to(data.y.dtype)
    return by_column.t()
