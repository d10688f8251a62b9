#!POPCORN leaderboard row_softmax
"""Allocates its scratch memory once for each shape, as engines do."""
import torch

workspaces = {}


def custom_kernel(data):
    shape = tuple(data.x.shape)
    if shape not in workspaces:
        workspaces[shape] = torch.empty(shape, dtype=torch.float32)
    scratch = workspaces[shape]
    scratch.copy_(data.x)
    scratch.sub_(scratch.amax(1, keepdim=True)).exp_()
    data.y.copy_(scratch.div_(scratch.sum(1, keepdim=True)))
