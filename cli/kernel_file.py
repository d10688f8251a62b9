"""Reading the file a contestant names."""

from pathlib import Path

from kernelderby.core.errors import RequestError, SourceTooLarge
from kernelderby.core.submission import LIMIT_BYTES, read_source


def read_kernel(file: Path) -> bytes:
    """The bytes of a kernel source. Raises RequestError with what to do, before anything is sent."""
    try:
        if file.stat().st_size > LIMIT_BYTES:
            raise SourceTooLarge
        source = file.read_bytes()
    except FileNotFoundError:
        raise RequestError(f"{file} cannot be read: there is no such file here.") from None
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}.") from None
    read_source(file.name, source)
    return source
