"""A lent box as its client sees it: one question, one answer, and nothing that it says is believed without a look.

The box runs only while a question is open or a call is played; else it is frozen, so that it can neither disturb others nor work
ahead. Whatever the contestant's program does wrong here ends the judging with its outcome.
"""

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelderby.core.text import clean_text
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.wire import Breach, Channel, Closed, Late
from kernelderby.judge.referee.findings import Ended, Finding, ended
from kernelderby.judge.referee.link import Lent, Link
from kernelderby.judge.referee.log import BoxLog
from kernelderby.judge.sandbox.freezer import FreezeFailed, freezer_from

SLICE_S = 0.02      # how often a wait looks whether it still makes sense
OVERDUE_S = 10.0    # for questions that run none of the contestant's code

ANSWERS = {"load": "loaded", "arena": "ready", "bind": "bound", "arm": "armed", "calls": "calls"}
OUTCOMES: dict[str, tuple[Outcome, Gate | None]] = {     # kind of an `error` answer
    "syntax": (Outcome.COMPILE_ERROR, None),
    "missing_entry": (Outcome.COMPILE_ERROR, None),
    "import": (Outcome.RUNTIME_ERROR, None),
    "shape": (Outcome.WRONG_SHAPE, None),
    "dtype": (Outcome.WRONG_DTYPE, None),
    "exception": (Outcome.RUNTIME_ERROR, None),
    "memory": (Outcome.OUT_OF_MEMORY, None),
    "illegal": (Outcome.ILLEGAL_MEMORY, None),
    "unsupported": (Outcome.REFUSED, Gate.DEVICE),
    "capture": (Outcome.REFUSED, Gate.SERVES),
}
SIGNALS: dict[int, tuple[Outcome, str]] = {
    signal.SIGSEGV: (Outcome.ILLEGAL_MEMORY, "It read or wrote memory that is not its own (segmentation fault)."),
    signal.SIGBUS: (Outcome.ILLEGAL_MEMORY, "It read or wrote memory that is not there (bus error)."),
    signal.SIGSYS: (Outcome.RUNTIME_ERROR, "It made a system call that the sandbox does not allow."),
    signal.SIGXFSZ: (Outcome.RUNTIME_ERROR, "It wrote a file larger than it may."),
}


class LentBox:
    """The client of one box. `close` gives the box back, dead."""

    def __init__(self, lent: Lent, link: Link) -> None:
        self._id = lent.id
        self._link = link
        self._channel = Channel(socket.socket(fileno=lent.wire_fd))
        self._freezer = freezer_from(lent.freezer)
        self.log = BoxLog(lent.log_fd)
        self._death: dict[str, Any] | None = None

    def ask(self, op: str, timeout_s: float, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """The answer to a question; the box is frozen before and after. Raises Ended."""
        self._refuse_early_words()
        nonce = secrets.randbelow(2**53)
        self.thaw()
        answer: dict[str, Any] = self._guarded(lambda: self._exchange({"op": op, "nonce": nonce, **fields}, fds, timeout_s))
        self.freeze()
        if answer.get("nonce") != nonce or isinstance(answer.get("nonce"), bool):
            raise _breach("an answer without the question's number")
        if answer.get("op") == "error":
            raise Ended(_error(answer))
        if answer.get("op") != ANSWERS[op]:
            raise _breach("an answer to another question")
        return answer

    @property
    def is_gone(self) -> bool:
        """Whether it was ended and left no process behind."""
        return self._death is not None and bool(self._death["gone"])

    @property
    def is_over(self) -> bool:
        """Whether it was ended, so that nothing more can be asked of it."""
        return self._death is not None

    def thaw(self) -> None:
        """Let it run."""
        self._freezer.thaw()

    def freeze(self) -> None:
        """Stop it. Raises Ended when it cannot be stopped."""
        try:
            self._freezer.freeze()
        except FreezeFailed:
            raise ended(Outcome.RUNTIME_ERROR, "The program's processes could not be stopped: it keeps starting new ones.") from None

    def look(self) -> None:
        """Whether a wait for the box still makes sense. Raises Ended when not; the program may not speak during a call."""
        self._refuse_early_words()
        self._look_aside()

    def close(self) -> None:
        """End the box if it still lives; its log is complete afterwards."""
        self._end()
        self._channel.close()
        self._freezer.close()
        self.log.finish()

    def _exchange(self, question: Mapping[str, Any], fds: Sequence[int], timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        self._channel.send(question, fds, timeout_s)
        while True:
            try:
                answer, sent = self._channel.receive(SLICE_S)
            except Late:
                self._look_aside()
                if time.monotonic() > deadline:
                    raise
                continue
            _close(sent)
            if sent:
                raise Breach("descriptors came with an answer")
            return answer

    def _refuse_early_words(self) -> None:
        if self._channel.pending():
            _, sent = self._guarded(lambda: self._channel.receive(SLICE_S))
            _close(sent)
            raise _breach("words that no one asked for")

    def _look_aside(self) -> None:
        self._link.check_cancelled()
        if self.log.is_flooded:
            raise ended(Outcome.OUTPUT_LIMIT, "The program printed more than 1 MiB. Print less.")

    def _guarded(self, talk: Callable[[], Any]) -> Any:
        """Talk to the box; its silence, end or nonsense ends the judging."""
        try:
            return talk()
        except Late:
            raise ended(Outcome.TIMEOUT, "The program took longer than the problem's time limit.") from None
        except Breach as breach:
            raise _breach(str(breach)) from None
        except Closed:
            raise Ended(self._how_it_died()) from None

    def _how_it_died(self) -> Finding:
        death = self._end()
        if self.log.is_flooded:
            return Finding(outcome=Outcome.OUTPUT_LIMIT, message="The program printed more than 1 MiB. Print less.")
        return finding_of_death(death)

    def _end(self) -> dict[str, Any]:
        if self._death is None:
            self._death = self._link.end_box(self._id)
        return self._death


def finding_of_death(death: Mapping[str, Any]) -> Finding:
    """What the end of a box means when no one asked it to end."""
    number = death.get("signal")
    if death.get("oom_killed"):
        return Finding(outcome=Outcome.OUT_OF_MEMORY, message="The program used more memory than the problem allows.")
    if number in SIGNALS:
        outcome, message = SIGNALS[number]
        return Finding(outcome=outcome, message=message)
    if number is not None:
        return Finding(outcome=Outcome.RUNTIME_ERROR, message=f"The program was killed by signal {number}.")
    return Finding(outcome=Outcome.RUNTIME_ERROR,
                   message=f"The process ended by itself with status {death.get('exit_status')} in the middle of the judging.")


def _error(answer: Mapping[str, Any]) -> Finding:
    kind, line = answer.get("kind"), answer.get("line")
    outcome, gate = OUTCOMES.get(kind if isinstance(kind, str) else "", (Outcome.RUNTIME_ERROR, None))
    message = clean_text(answer.get("message", ""), 2000)
    if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 10**6:
        message = f"Line {line}: {message}"
    return Finding(outcome=outcome, gate=gate, message=message)


def _breach(what: str) -> Ended:
    return ended(Outcome.REFUSED, f"The program wrote on the judge's own wire: {clean_text(what, 200)}. Leave its descriptors alone.")


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
