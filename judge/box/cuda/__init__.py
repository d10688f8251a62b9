"""The harness on a GPU: the arena by CUDA IPC, armed calls. Needs cuda-bindings, which the CPU class has not."""
