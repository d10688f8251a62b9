#!POPCORN leaderboard vector_add
"""Views the tensors as arrays."""
import numpy as np


def custom_kernel(data):
    np.add(data.a.numpy(), data.b.numpy(), out=data.c.numpy())
