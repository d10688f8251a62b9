"""Returns the answer instead of filling `c`."""


def custom_kernel(data):
    return data.a + data.b
