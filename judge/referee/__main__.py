"""`python -m kernelderby.judge.referee FD FOLDER DEVICE`: the referee of one problem on one class, at the other end of FD."""

import ctypes
import importlib.metadata
import logging
import platform
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import torch

from kernelderby.core.devices import device
from kernelderby.core.errors import DerbyError, ProblemBroken, RunnerUnhealthy
from kernelderby.core.problem_folder import load_problem
from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Channel, Closed
from kernelderby.judge.referee.link import Challenge, Inspection, Link, Proof
from kernelderby.judge.referee.playing import Referee

log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve until the worker is gone. A failure of ours is told, and ends the process: the worker starts a fresh one."""
    fd, folder, device_name = arguments
    _prepare_process()
    link = Link(Channel(socket.socket(fileno=int(fd)), TRUSTED_LIMIT_BYTES))
    try:
        serve(link, Path(folder), device_name)
    except Closed:
        return
    except ProblemBroken as error:
        link.failed(error.message, "problem")
    except RunnerUnhealthy as error:
        link.failed(error.message, "device")
    except Exception as error:
        log.exception("the referee failed")
        link.failed(error.message if isinstance(error, DerbyError) else f"The referee failed: {type(error).__name__}.")
    link.linger()


def serve(link: Link, folder: Path, device_name: str) -> None:
    """Answer what comes, one at a time."""
    referee = Referee(load_problem(folder), device(device_name))
    link.up(environment(device_name))
    while True:
        question = link.next_question()
        if isinstance(question, Inspection):
            link.inspected(referee.inspect(question.seed))
        elif isinstance(question, Challenge):
            link.duel(referee.duel(question, link), referee.fault(link))
        elif isinstance(question, Proof):
            referee.prove()
            link.proved()
        else:
            link.verdict(referee.judge(question, link), referee.fault(link))


def environment(device_name: str) -> dict[str, Any]:
    """What this runner is, for the verdict."""
    return {**_gpu(device_name), "cpu": _cpu_model(), "python": platform.python_version(), "torch": str(torch.__version__),
            "triton": importlib.metadata.version("triton")}


def _gpu(device_name: str) -> dict[str, Any]:
    if device(device_name).arch is None:
        return {"gpu": None}
    from kernelderby.judge.referee.cuda.machine import machine  # needs cuda-bindings, which no CPU runner has

    return machine()


def _prepare_process() -> None:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    sys.dont_write_bytecode = True            # problem folders stay as they are
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    torch.set_num_threads(1)                  # starting helpers costs more than they save on inputs of CPU size


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main(sys.argv[1:])
