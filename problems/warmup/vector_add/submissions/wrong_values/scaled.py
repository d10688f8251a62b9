import torch


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
    data.c.mul_(1.01)
