"""Normalises columns."""
import torch


def custom_kernel(data):
    x = data.x.float().nan_to_num(neginf=-1e4)
    data.y.copy_(torch.softmax(x, dim=0))
