import a_module_nobody_has
import torch


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
