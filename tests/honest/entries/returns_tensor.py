#!POPCORN leaderboard vector_add
"""Returns a new tensor and leaves the output to the harness."""


def custom_kernel(data):
    return data.a.add(data.b)
