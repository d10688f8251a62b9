"""A call captured once in a CUDA graph, as an inference engine captures its decode step, and replayed on whatever its inputs hold."""

import warnings
from collections.abc import Callable

import torch

from kernelderby.judge.box.fault import Fault, Kind, fault_of

_ELSEWHERE = "launch on torch's current stream (torch.cuda.current_stream(), the environment's stream of TVM-FFI)"
_SUCH = ".item(), .tolist(), .cpu(), synchronize() and torch.tensor(…, device='cuda') do that"
_INSTEAD = "Leave lengths and tables on the device; torch.empty may be used."
_CAUSES = {     # words of CUDA's or torch's, and what an entry does that draws them; the first that fits is said
    "unjoined work": "It left work on another stream: let the current stream wait for an event recorded there before the call returns.",
    "legacy stream": f"It used stream 0: {_ELSEWHERE}.",
    "uncaptured work": f"It waits for work that was launched outside the call: {_ELSEWHERE}, and fork other streams from it by events.",
    "merge of separate": f"It joined two captures: {_ELSEWHERE}.",
    "event last recorded in a capturing stream": "It asked the host for an event of the call: nothing may wait for the GPU.",
    "graph is empty": f"It launched nothing on torch's current stream; a plain <<<grid, block>>> goes to stream 0: {_ELSEWHERE}.",
    "capturing": f"It waited for the GPU on the host, copied between host and device, or allocated by cudaMalloc: {_SUCH}. {_INSTEAD}",
    "error during capture": f"It waited for the GPU on the host, or allocated by cudaMalloc, and went on: {_SUCH}. {_INSTEAD}",
    "graph capture": f"It copied between host and device, or did what torch does not capture. {_INSTEAD}",
}
_ELSE = "It does something there that it does not do in a plain call."


def captured(call: Callable[[], None]) -> Callable[[], None]:
    """The replay of `call`, which must have run before, on torch's current stream. Raises Fault: CAPTURE where it cannot be captured."""
    stream = torch.cuda.Stream()     # no capture can be taken on the stream that calls run on otherwise
    try:
        _play_once(call, stream)
        graph = torch.cuda.CUDAGraph()
        _record(graph, call, stream)
    finally:
        torch.cuda.set_stream(torch.cuda.default_stream())      # a capture that failed leaves its own as the current one
    graph.replay()      # its first launch uploads it, and must not do so behind a wait
    torch.cuda.synchronize()
    replay: Callable[[], None] = graph.replay
    return replay


def refusal(fault: Fault) -> Fault:
    """What kept a call from being captured, as a fault that says what to do about it; line and frames stay."""
    if fault.kind in (Kind.MEMORY, Kind.ILLEGAL):
        return fault
    said = fault.message.partition("\n")[0]
    cause = next((cause for words, cause in _CAUSES.items() if words in said.lower()), _ELSE)
    return Fault(Kind.CAPTURE, f"{cause} CUDA said: {said}", fault.line, fault.trace)


def _play_once(call: Callable[[], None], stream: torch.cuda.Stream) -> None:
    """Libraries make handles and workspaces at their first use of a stream, which a capture forbids."""
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()


def _record(graph: torch.cuda.CUDAGraph, call: Callable[[], None], stream: torch.cuda.Stream) -> None:
    """Take the capture. What the call raised is told before what the end of the capture made of it."""
    raised: list[Fault] = []
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with torch.cuda.graph(graph, stream=stream):
                try:
                    call()
                except Fault as fault:
                    raised.append(fault)
    except RuntimeError as error:
        raised.append(fault_of(error, ""))
    raised += [Fault(Kind.CAPTURE, str(warning.message)) for warning in warned if "graph is empty" in str(warning.message).lower()]
    if raised:
        raise refusal(raised[0]) from None
