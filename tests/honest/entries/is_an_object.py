#!POPCORN leaderboard vector_add
"""The entry is a callable object with a state of its own."""
import torch


class Adder:
    def __init__(self):
        self.calls = 0

    def __call__(self, data):
        self.calls += 1
        torch.add(data.a, data.b, out=data.c)


custom_kernel = Adder()

if __name__ == "__main__":
    raise SystemExit("this part is for trying the file by hand")
