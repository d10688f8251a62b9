def custom_kernel(data):
    data.c.copy_(data.a - data.b)
