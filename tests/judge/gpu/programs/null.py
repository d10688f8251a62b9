def custom_kernel(data):
    pass
