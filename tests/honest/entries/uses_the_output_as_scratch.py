#!POPCORN leaderboard row_softmax
"""Writes intermediate values into the output before the answer."""


def custom_kernel(data):
    data.y.copy_(data.x)
    top = data.y.amax(1, keepdim=True).float()
    weights = (data.x.float() - top).exp()
    data.y.copy_(weights)
    data.y.copy_(weights / weights.sum(1, keepdim=True))
