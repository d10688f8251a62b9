#!POPCORN leaderboard vector_add
"""Vector addition in PyTorch. `data` holds the inputs, then the outputs, which this function fills."""

import torch


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
    # Returning the answer works as well; it is then copied into data.c, and the copy counts:
    # return data.a + data.b
