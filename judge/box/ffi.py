"""A `.cu` entry: a library that exports `custom_kernel` by TVM-FFI, called with the inputs, then the outputs."""

from pathlib import Path
from typing import Any

from kernelderby.judge.box.entry import KERNEL, Entry
from kernelderby.judge.box.fault import Fault, Kind, fault_of

NO_EXPORT = f"The library exports no {KERNEL}. Add TVM_FFI_DLL_EXPORT_TYPED_FUNC({KERNEL}, your_function); at the end of the file."


def load_library(path: Path, file_name: str) -> Entry:
    """Open the library, which may run code of theirs, and find its function. Raises Fault.

    Tensors pass as DLPack views, numbers as numbers. TVM-FFI takes the stream from torch at each call, so that TVMFFIEnvGetStream
    answers with torch's current stream.
    """
    import tvm_ffi

    try:
        function = tvm_ffi.load_module(str(path)).get_function(KERNEL)
    except AttributeError:
        raise Fault(Kind.MISSING_ENTRY, NO_EXPORT) from None
    except BaseException as error:
        raise fault_of(error, file_name) from None

    def custom_kernel(data: tuple[Any, ...]) -> None:
        function(*data)

    return Entry(file_name=file_name, custom_kernel=custom_kernel, plan=None)
