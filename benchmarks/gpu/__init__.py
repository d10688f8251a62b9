"""What the GPU judge is claimed to do, measured on a GPU: `python -m benchmarks.gpu --out FILE`."""
