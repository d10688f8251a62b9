def custom_kernel(data):
    return data.a + data.b
