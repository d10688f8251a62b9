#!POPCORN leaderboard vector_add
"""Fills the output in two steps, by views of it."""


def custom_kernel(data):
    half = data.c.numel() // 2
    for part in (slice(None, half), slice(half, None)):
        data.c[part] = data.a[part]
        data.c[part] += data.b[part]
