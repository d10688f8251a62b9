"""Leaves copies in its queue when its own call is over, so that whatever is timed next has to share the memory with them.

Its own times stay; the baseline's get longer, and with them the speed-up. In a judge's box it does so once a block: after its last
call, when the baseline's turn comes, since copies that run into its own next call would be seen.
"""

import sys

import torch

BLOCK, BEFORE = 30, 2         # a block's calls with its lead-in; calls before the first block: warm-up, rehearsal
BYTES, FEW, MANY = 256 << 20, 4, 400
side = torch.cuda.Stream()
kept, calls = [], 0


def is_boxed():
    return "kernelderby.judge.box.serve" in sys.modules and "kernelderby.judge.judging" not in sys.modules


def copies_wanted():
    if not is_boxed():
        return FEW
    return MANY if calls > BEFORE and (calls - BEFORE) % BLOCK == 0 else 0


def custom_kernel(data):
    global calls
    calls += 1
    if not kept:
        kept.extend(torch.zeros(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
        kept[0].copy_(kept[1])
    torch.add(data.a, data.b, out=data.c)
    count = copies_wanted()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(count):
            kept[0].copy_(kept[1])
