"""The system calls a box may not make, assembled into a classic BPF program. No libseccomp needed. x86-64 alone."""

import errno
import struct

_LOAD, _JUMP_EQUAL, _JUMP_NOT_LESS, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24          # offsets in struct seccomp_data
_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_NEW_NAMESPACE = 0x7E020000      # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_IOCTL, _SOCKET, _CLONE, _CLONE3 = 16, 41, 56, 435
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C      # typing into the terminal that started us
_AF_UNIX = 1

# By what they reach, with their x86-64 numbers.
DENIED: dict[str, int] = {
    # other processes
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438, "process_madvise": 440,
    "process_mrelease": 448,
    # mounts and namespaces
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "open_tree_attr": 467,
    "statmount": 457, "listmount": 458, "quotactl": 179, "quotactl_fd": 443, "name_to_handle_at": 303, "open_by_handle_at": 304,
    # large attack surface of the kernel, unused by kernels of ours
    "bpf": 321, "perf_event_open": 298, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323,
    "keyctl": 250, "add_key": 248, "request_key": 249, "fanotify_init": 300, "modify_ldt": 154,
    # the machine itself
    "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176, "reboot": 169,
    "swapon": 167, "swapoff": 168, "iopl": 172, "ioperm": 173, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305,
    "adjtimex": 159, "acct": 163, "syslog": 103, "personality": 135, "sethostname": 170, "setdomainname": 171, "vhangup": 153,
    "mknod": 133, "mknodat": 259,
    # where memory lies, which could disturb a neighbour
    "mbind": 237, "set_mempolicy": 238, "set_mempolicy_home_node": 450, "migrate_pages": 256, "move_pages": 279,
    # old and unused
    "lookup_dcookie": 212, "nfsservctl": 180, "uselib": 134, "ustat": 136, "sysfs": 139, "_sysctl": 156,
}


def filter_program() -> bytes:
    """For bubblewrap's `--seccomp`. What is denied gets EPERM, any socket that is not a Unix socket EACCES, the rest is allowed."""
    program = [
        _step(_LOAD, _ARCH), _step(_JUMP_EQUAL, _X86_64, yes=1), _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_JUMP_NOT_LESS, _X32_BIT, no=1), _fail(errno.ENOSYS),
        # Its flags lie in memory, where a filter cannot look; libc falls back to clone.
        *_deny(_CLONE3, errno.ENOSYS),
        *_on(_CLONE, [_step(_LOAD, _ARGUMENT_0), _step(_JUMP_BITS, _NEW_NAMESPACE, no=1), _fail(errno.EPERM)]),
        *_on(_IOCTL, [_step(_LOAD, _ARGUMENT_1), _step(_JUMP_EQUAL, _TIOCSTI, yes=1), _step(_JUMP_EQUAL, _TIOCLINUX, no=1),
                      _fail(errno.EPERM)]),
        *_on(_SOCKET, [_step(_LOAD, _ARGUMENT_0), _step(_JUMP_EQUAL, _AF_UNIX, yes=1), _fail(errno.EACCES)]),
    ]
    for number in sorted(DENIED.values()):
        program += _deny(number, errno.EPERM)
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; a jump skips `yes` or `no` of those that follow."""
    return struct.pack("HBBI", code, yes, no, value)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _deny(call: int, number: int) -> list[bytes]:
    return [_step(_JUMP_EQUAL, call, no=1), _fail(number)]


def _on(call: int, steps: list[bytes]) -> list[bytes]:
    """`steps` for that call alone; they end by failing or by falling through, after which the number is loaded anew."""
    body = [*steps, _step(_LOAD, _NUMBER)]
    return [_step(_JUMP_EQUAL, call, no=len(body)), *body]
