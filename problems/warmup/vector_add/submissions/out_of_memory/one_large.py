import torch


def custom_kernel(data):
    table = torch.zeros(1 << 20, 1 << 20)            # 4 TiB
    torch.add(data.a, data.b, out=data.c)
