#!POPCORN leaderboard row_softmax
"""Row softmax in PyTorch, step by step. `data` holds the input, then the output, which this function fills."""


def custom_kernel(data):
    x = data.x.float()                                  # compute in float32, round once at the end
    weights = (x - x.amax(dim=1, keepdim=True)).exp()   # subtracting the maximum keeps exp in range
    data.y.copy_(weights / weights.sum(dim=1, keepdim=True))
