"""The CUDA calls that torch does not make for us, each checked. Used on both sides of the trust line."""

from typing import Any

import torch
from cuda.bindings import driver, runtime

LEGACY = 0              # the stream that a plain `<<<grid, block>>>` uses, and torch unless told otherwise
BLOCK_BYTES = 2 << 20   # smaller allocations share such a block with others, and a handle opens the whole of it

_REACHED = int(driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)
_AFTER_ALL = int(driver.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT)


class CudaFailed(Exception):
    """A CUDA call of ours failed; the text is the error's name."""


def allocate(size: int) -> int:
    """A device allocation of its own, outside torch's; the address."""
    return int(_checked(runtime.cudaMalloc(size)))


def free(address: int) -> None:
    """Give such an allocation back."""
    _checked(runtime.cudaFree(address))


def handle_of(address: int) -> bytes:
    """What another process needs to open the allocation."""
    return bytes(_checked(runtime.cudaIpcGetMemHandle(address)).reserved)


def open_handle(handle: bytes) -> int:
    """The address here of an allocation of another process."""
    held = runtime.cudaIpcMemHandle_t()
    held.reserved = handle
    return int(_checked(runtime.cudaIpcOpenMemHandle(held, runtime.cudaIpcMemLazyEnablePeerAccess)))


def tensor_at(address: int, size: int) -> torch.Tensor:
    """A uint8 tensor over device memory that somebody else owns."""
    return torch.as_tensor(_Memory(address, size), device="cuda")


def register_page(address: int, size: int) -> int:
    """The device's address of a page in host memory, which stays where it is from now on. Not for files on a disk."""
    _checked(runtime.cudaHostRegister(address, size, runtime.cudaHostRegisterMapped))
    return int(_checked(runtime.cudaHostGetDevicePointer(address, 0)))


def wait_until(stream: int, word: int, value: int) -> None:
    """What is launched into `stream` from now on waits until the 32-bit word at a device address has reached `value`."""
    _checked(driver.cuStreamWaitValue32(stream, word, value, _REACHED))


def write_word(stream: int, word: int, value: int) -> None:
    """Write a word when all that was launched into `stream` so far is done and can be seen."""
    _checked(driver.cuStreamWriteValue32(stream, word, value, _AFTER_ALL))


def copy_strided(stream: int, source: int, pitch: int, count: int, host: int) -> None:
    """Copy `count` 8-byte words, `pitch` bytes apart, to pinned host memory by the copy engine."""
    to_host = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    _checked(runtime.cudaMemcpy2DAsync(host, 8, source, pitch, 8, count, to_host, stream))


class _Memory:
    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def _checked(result: tuple[Any, ...]) -> Any:
    """The value of a call of cuda-bindings, which return their error first."""
    code, *values = result
    if int(code):
        raise CudaFailed(code.name)
    return values[0] if values else None
