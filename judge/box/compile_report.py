"""What the compiler makes of the recorded kernels for GPUs that are not here.

Works in a forked child: there the interpreter's changes to triton are undone and its functions are turned into compiled ones in
place, so that the kernels see the very module they run in and nothing is imported or executed again. The child may crash or be
late: the report then says so, and the harness goes on.
"""

import json
import linecache
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from kernelderby.judge.box.interpreter import Launch, Recorder

SHARED_LIMIT = 227 * 1024     # bytes a block can have on sm_90 and sm_100
TENSOR_MEMORY_LIMIT = 512     # columns, sm_100
_NAME_LIMIT, _MESSAGE_LIMIT = 120, 500    # characters
_TENSOR_CORES = (("wgmma", "wgmma.mma_async"), ("tcgen05", "tcgen05.mma"), ("mma", "mma.sync"))

Report = dict[str, Any]


def compile_launches(recorder: Recorder, targets: Sequence[str], deadline_s: float) -> list[Report]:
    """One report for each launch and target (`sm_90a`), in that order. Takes no longer than `deadline_s` and a moment."""
    launches = recorder.launches
    wanted = [(launch, name, target) for launch, name in zip(launches, _names(launches), strict=True) for target in targets]
    if not wanted:
        return []
    reports, ending = _from_child(recorder, wanted, time.monotonic() + deadline_s)
    missing = [{"kernel": name, "arch": target, "would_launch": False, "message": ending} for _, name, target in wanted[len(reports) :]]
    return reports + missing


def _from_child(recorder: Recorder, wanted: Sequence[tuple[Launch, str, str]], deadline: float) -> tuple[list[Report], str]:
    """What the child reported, and a sentence for what it did not."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)    # torch's threads are not forked, and the child does not use them
        child = os.fork()
    if child == 0:
        _be_child(recorder, wanted, write_end)
    os.close(write_end)
    text, is_late = _read_until(read_end, deadline)
    _kill_group(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = text.split(b"\n")[:-1]
    ending = "not compiled: the time for compile reports was over" if is_late else f"the compiler crashed (status {status})"
    return [json.loads(line) for line in lines], ending


def _read_until(fd: int, deadline: float) -> tuple[bytes, bool]:
    """Everything until the other end closes, or what came by the deadline and True."""
    text = b""
    with open(fd, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = pipe.read(65536)
            if not chunk:
                return text, False
            text += chunk
    return text, True


def _kill_group(child: int) -> None:
    """The child and the assembler it may be waiting for."""
    for kill, pid in ((os.killpg, child), (os.kill, child)):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _be_child(recorder: Recorder, wanted: Sequence[tuple[Launch, str, str]], pipe: int) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        os.closerange(3, pipe)    # the wire above all: the referee must see it closed if the harness dies
        os.closerange(pipe + 1, 65536)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)    # triton prints whole programs when its assembler fails
        os.dup2(nowhere, 2)
        _compile_instead(recorder)
        for launch, name, target in wanted:
            report = {"kernel": name, "arch": target, **_report(launch, target)}
            os.write(pipe, json.dumps(report).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _compile_instead(recorder: Recorder) -> None:
    """Turn the interpreter off, as if it had never been on."""
    import triton

    recorder.put_back()
    triton.knobs.runtime.interpret = False
    triton.runtime.cache.triton_key = lambda: triton.__version__    # else it hashes its own 300 MB, for a cache that dies with the box
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if _is_interpreted(value):
                setattr(module, name, _compiled(value))
    tensor = triton.language.core.tensor
    for name, function in vars(triton.language.standard).items():
        if isinstance(function, triton.JITFunction) and hasattr(vars(tensor).get(name), "__signature__"):
            setattr(tensor, name, function)    # x.sum() and its like


def _is_interpreted(value: Any) -> bool:
    return type(value).__name__ == "InterpretedFunction"


def _compiled(interpreted: Any) -> Any:
    """The same function for the compiler: one object for each, since kernels compare them."""
    import triton

    made = vars(interpreted).get("compiled")
    if made is None:
        interpreted.compiled = made = triton.JITFunction(interpreted.fn, **interpreted.kwargs)
    return made


def _report(launch: Launch, target: str) -> Report:
    try:
        built = _build(launch, target)
    except Exception as error:
        return {"would_launch": False, "message": _why(error, launch.kernel.fn.__code__.co_filename)}
    shared, tensor_memory = built.metadata.shared, getattr(built.metadata, "tmem_size", None) or 0
    registers, spills = _resources(built.asm["cubin"])
    message = _too_much(shared, tensor_memory)
    return {"registers": registers, "shared_bytes": shared, "spills": spills, "tensor_core": _tensor_core(built.asm["ptx"]),
            "would_launch": message is None, "message": message}


def _build(launch: Launch, target: str) -> Any:
    """The kernel as triton would compile it at this launch, were the target there."""
    import triton
    from triton.backends.compiler import GPUTarget

    arch = int(re.sub(r"\D", "", target))
    triton.runtime.driver.set_active(_Absent(GPUTarget("cuda", arch, 32)))
    arguments = [_compiled(value) if _is_interpreted(value) else value for value in launch.arguments]
    options = {name: _compiled(value) if _is_interpreted(value) else value for name, value in launch.options.items()}
    return _compiled(launch.kernel).run(*arguments, grid=(1,), warmup=True, **options)


class _Absent:
    """A triton driver for a GPU that is not here: enough to compile for it."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return int(self._target.arch)    # triton caches kernels by device: one for each target

    def get_current_stream(self, device: int) -> int:
        return 0


def _resources(cubin: bytes) -> tuple[int | None, int | None]:
    """Registers a thread, and how many of them live in local memory instead."""
    import triton

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}
    return found.get("REG"), max(found["STACK"], found["LOCAL"]) // 4 if {"STACK", "LOCAL"} <= found.keys() else None


def _tensor_core(ptx: str) -> str | None:
    return next((name for name, instruction in _TENSOR_CORES if instruction in ptx), None)


def _too_much(shared: int, tensor_memory: int) -> str | None:
    if shared > SHARED_LIMIT:
        return f"needs {shared} bytes of shared memory a block, the GPU has {SHARED_LIMIT}: smaller blocks or fewer stages"
    if tensor_memory > TENSOR_MEMORY_LIMIT:
        return f"needs {tensor_memory} columns of tensor memory, the GPU has {TENSOR_MEMORY_LIMIT}: smaller blocks"
    return None


def _why(error: BaseException, file_name: str) -> str:
    """Why it did not compile, with the line in the file where triton tells it."""
    while type(error).__name__ == "CompilationError" and error.__cause__ is not None:
        error = error.__cause__
    said = getattr(error, "error_message", None) or str(error) or type(error).__name__
    line = _line(error, file_name)
    return _plain(f"line {line}: {said}" if line else f"{type(error).__name__}: {said}", _MESSAGE_LIMIT)


def _line(error: BaseException, file_name: str) -> int | None:
    """Triton counts lines from the function's `def`."""
    function, node = getattr(error, "src", None), getattr(error, "node", None)
    text = "".join(linecache.getlines(file_name))
    if not function or function not in text or node is None:
        return None
    return text.count("\n", 0, text.index(function)) + int(node.lineno)


def _names(launches: Sequence[Launch]) -> Iterator[str]:
    """Each kernel's name; where one was launched in several ways, with what differs."""
    for launch in launches:
        same = [other.constants for other in launches if other.kernel is launch.kernel]
        differing = [name for name, value in launch.constants.items() if any(other.get(name) != value for other in same)]
        shown = ", ".join(f"{name}={_shown(launch.constants[name])}" for name in differing)
        yield _plain(f"{launch.kernel.__name__}[{shown}]" if shown else launch.kernel.__name__, _NAME_LIMIT)


def _shown(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def _plain(text: str, limit: int) -> str:
    """ASCII, so that all reports fit on one line of the wire."""
    return text.encode("ascii", "backslashreplace").decode()[:limit]
