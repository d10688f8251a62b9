#!POPCORN leaderboard vector_add
"""Words that a search for cheats would find: stream, torch.cuda.Stream, monkeypatch, os.system, eval, __class__, timer."""
import torch

stream = "the values stream through once"     # a name like any other


def custom_kernel(data):
    # One could use a second stream here; it would not help.
    torch.add(data.a, data.b, out=data.c)
