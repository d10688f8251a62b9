"""The harness: `python -s -P -m kernelderby.judge.box FD`, where FD is its end of the wire."""

import faulthandler
import gc
import importlib
import os
import socket
import sys

from kernelderby.judge.box.host import Device, Host
from kernelderby.judge.box.interpreter import Recorder, install
from kernelderby.judge.box.serve import serve
from kernelderby.judge.box.wire import Channel


def main() -> None:
    """Import what contestants need, say ready, answer questions, and leave without tearing torch down."""
    wire = int(sys.argv[1])
    os.set_inheritable(wire, False)
    _print_at_once()
    faulthandler.enable(all_threads=False)    # a crash names its line in the log
    importlib.import_module("triton")
    recorder = Recorder()
    device = _device(recorder)
    gc.freeze()    # the libraries' objects are never looked at again: a full collection in a call takes no 50 ms
    serve(Channel(socket.socket(fileno=wire)), recorder, device)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _device(recorder: Recorder) -> Device:
    if os.environ.get("TRITON_INTERPRET") == "1":
        install(recorder)
        return Host()
    from kernelderby.judge.box.cuda.device import Cuda  # needs cuda-bindings, which no CPU runner has

    return Cuda()


def _print_at_once() -> None:
    """A box may be killed at any moment: what was printed before must already be in the log."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)    # type: ignore[union-attr]


if __name__ == "__main__":
    main()
