"""Row softmax in plain PyTorch: sets the error budget, and the time that speed-ups are measured against."""

import torch


def custom_kernel(data):
    data.y.copy_(torch.softmax(data.x.float(), dim=1))
