"""The honest kernel: what attacks are held against."""

import torch


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
