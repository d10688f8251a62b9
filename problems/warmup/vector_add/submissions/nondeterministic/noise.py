import torch


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
    data.c.add_(0.1 * torch.randn_like(data.c))
