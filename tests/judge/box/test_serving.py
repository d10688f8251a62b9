"""A call captured for replays: when it is, and what is said of one that cannot be."""

import os
from collections.abc import Callable

import pytest

from kernelderby.judge.box import pages
from kernelderby.judge.box.cuda.serving import refusal
from kernelderby.judge.box.fault import Fault, Kind
from kernelderby.judge.box.host import Host
from kernelderby.judge.box.interpreter import Recorder
from kernelderby.judge.box.serve import Harness
from kernelderby.judge.box.wire import sealed_file

COUNTS = "calls = []\ndef custom_kernel(data):\n    calls.append(1)\n    data.y[0] = len(calls)\n"
Y = {"name": "y", "shape": [2], "dtype": "float32", "offset": 512}

# What CUDA and torch say, by the words of their own sources, and what an entry must read of it.
SAID = {
    "AcceleratorError: CUDA error: operation not permitted when stream is capturing\nSearch for …": "waited for the GPU on the host",
    "RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned.": "between host",
    "AcceleratorError: CUDA error: operation failed due to a previous error during capture": "cudaMalloc",
    "AcceleratorError: CUDA error: capturing stream has unjoined work": "wait for an event recorded there",
    "AcceleratorError: CUDA error: operation would make the legacy stream depend on a capturing blocking stream": "stream 0",
    "AcceleratorError: CUDA error: dependency created on uncaptured work in another stream": "outside the call",
    "AcceleratorError: CUDA error: operation not permitted on an event last recorded in a capturing stream": "event of the call",
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.": "stream 0",
    "ValueError: no": "does not do in a plain call",
}


@pytest.mark.parametrize("said", SAID)
def test_what_cannot_be_captured_is_told_with_what_to_do_and_its_own_line(said: str) -> None:
    fault = refusal(Fault(Kind.EXCEPTION, said, 7, "their frames"))

    assert (fault.kind, fault.line, fault.trace) == (Kind.CAPTURE, 7, "their frames")
    assert SAID[said] in fault.message and said.partition("\n")[0] in fault.message and "Search for" not in fault.message


@pytest.mark.parametrize("kind", [Kind.MEMORY, Kind.ILLEGAL])
def test_a_capture_that_found_no_memory_or_crashed_keeps_its_kind(kind: Kind) -> None:
    fault = Fault(kind, "CUDA out of memory while capturing")

    assert refusal(fault) is fault


class Captures(Host):
    """A device whose captures are counted; with a fault, none succeeds."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault, self.captured_after = fault, 0.0

    def captured(self, call: Callable[[], None]) -> Callable[[], None]:
        if self.fault:
            raise self.fault
        call()
        return call


def bound(device: Captures, **options: object) -> tuple[Harness, dict[str, object]]:
    """A harness with a loaded file that counts its calls in y[0], and its answer to `bind`."""
    harness = Harness(Recorder(), device)
    fds = [os.memfd_create(name) for name in ("arena", "go", "done")]
    for fd in fds:
        os.ftruncate(fd, pages.BYTES)
    harness.answer({"op": "load", "file_name": "submission.py"}, [sealed_file(COUNTS.encode())])
    harness.answer({"op": "arena", "bytes": pages.BYTES}, fds)
    return harness, harness.answer({"op": "bind", "inputs": [], "outputs": [Y], **options}, [])


ASKED = [({}, 1), ({"capture": False}, 1), ({"capture": True}, 2), ({"capture": True, "warmups": 3}, 4)]


@pytest.mark.parametrize(("options", "calls"), ASKED)
def test_a_call_is_captured_after_its_warm_ups_and_only_when_asked(options: dict[str, object], calls: int) -> None:
    harness, answer = bound(Captures(), **options)

    assert answer == {"op": "bound", "plan_us": None}
    assert harness.arena and harness.arena.tensor([2], "float32", 512)[0] == calls


def test_a_capture_that_fails_is_answered_by_an_error_of_its_kind() -> None:
    _, answer = bound(Captures(Fault(Kind.CAPTURE, "It waited.", 3)), capture=True)

    assert (answer["op"], answer["kind"], answer["message"], answer["line"]) == ("error", "capture", "It waited.", 3)
