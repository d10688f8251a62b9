#!POPCORN leaderboard vector_add
"""Prints on both channels in every call."""
import sys

import torch

print("loaded", torch.__version__)


def custom_kernel(data):
    print("n =", data.c.numel(), "✓", flush=True)
    print("\x1b[31mnot an error\x1b[0m", file=sys.stderr)
    torch.add(data.a, data.b, out=data.c)
