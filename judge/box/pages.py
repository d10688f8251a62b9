"""Two shared pages of 32-bit words, with a futex on each: the referee's `go` and the box's `done`.

Word layout (little endian). go: [CALL] number of the call that may start, 0 before the first; [STOP] 1 when no more calls come;
[NEAR] number of the unarmed call that is prepared as soon as the box is awake, on a GPU. done: [CALL] number of the call that ended;
[STATUS] FAILED when it raised; [ARMED] number of the call launched ahead; [AWAKE] the answer to [NEAR].
A word is written last, then the other side is woken.
"""

import ctypes
import mmap
import os

BYTES = 4096
CALL, STATUS, STOP, ARMED, NEAR, AWAKE = range(6)      # word indices
OK, FAILED = 0, 1

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_FUTEX, _WAIT, _WAKE = 202, 0, 1   # x86-64


class Page:
    """A mapped page. `writable` maps it shared for writing; else reading alone."""

    def __init__(self, fd: int, writable: bool) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(fd, BYTES, mmap.MAP_SHARED, protection)
        self._address = _address(fd, protection)

    @property
    def address(self) -> int:
        """Where it lies in this process."""
        return self._address

    def read(self, word: int) -> int:
        """One word, as it is now."""
        return int.from_bytes(self._map[4 * word : 4 * word + 4], "little")

    def write(self, word: int, value: int) -> None:
        """One word; the page must be writable."""
        ctypes.c_uint32.from_address(self._address + 4 * word).value = value

    def wake(self, word: int) -> None:
        """Wake whoever waits on the word."""
        _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(self._address + 4 * word), _WAKE, 2**31 - 1, None, None, 0)

    def wait(self, word: int, while_value: int, timeout_s: float) -> int:
        """Sleep until the word differs from `while_value` or the time is over; its value then. May return early."""
        value = self.read(word)
        if value != while_value:
            return value
        seconds = int(timeout_s)
        spec = (ctypes.c_long * 2)(seconds, int((timeout_s - seconds) * 1e9))
        _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(self._address + 4 * word), _WAIT, while_value, spec, None, 0)
        return self.read(word)


def _address(fd: int, protection: int) -> int:
    """A second mapping whose address is known, since mmap's read-only buffers give none away."""
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address = _libc.mmap(None, BYTES, protection, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(address)
