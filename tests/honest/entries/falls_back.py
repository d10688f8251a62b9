#!POPCORN leaderboard row_softmax
"""Tries a fast path first, which this machine does not have, and catches that."""
import torch


def fast(data):
    raise NotImplementedError("needs a GPU")


def custom_kernel(data):
    try:
        fast(data)
    except NotImplementedError:
        data.y.copy_(torch.softmax(data.x.float(), dim=1))
