#!POPCORN leaderboard vector_add
"""Takes half a second to load, as large packages do."""
import time

import torch

time.sleep(0.5)


def custom_kernel(data):
    torch.add(data.a, data.b, out=data.c)
