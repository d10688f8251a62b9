"""The answer is right, but `a` is used up on the way."""


def custom_kernel(data):
    data.a.add_(data.b)
    data.c.copy_(data.a)
