import torch

kept = []


def custom_kernel(data):
    while True:
        kept.append(torch.ones(16 * 1024 * 1024))    # 64 MiB, written to
