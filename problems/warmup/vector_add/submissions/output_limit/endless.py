def custom_kernel(data):
    while True:
        print("x" * 1000)
