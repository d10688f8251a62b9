#!POPCORN leaderboard vector_add
"""Two threads share the work, and are done before the call is."""
from threading import Thread

import torch


def add(data, part):
    torch.add(data.a[part], data.b[part], out=data.c[part])


def custom_kernel(data):
    half = data.c.numel() // 2
    threads = [Thread(target=add, args=(data, part)) for part in (slice(None, half), slice(half, None))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
