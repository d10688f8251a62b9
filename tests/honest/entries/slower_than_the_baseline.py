#!POPCORN leaderboard vector_add
"""A hundred small additions instead of a large one."""


def custom_kernel(data):
    for a, b, c in zip(data.a.chunk(100), data.b.chunk(100), data.c.chunk(100), strict=True):
        c.copy_(a + b)
