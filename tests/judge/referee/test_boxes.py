"""What the words and the end of a box mean; whatever it says, the referee gets a finding and loses nothing."""

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.wire import Channel
from kernelderby.judge.referee import boxes
from kernelderby.judge.referee.boxes import LentBox, finding_of_death
from kernelderby.judge.referee.findings import Ended
from kernelderby.judge.referee.link import Lent, Link

DEATHS = {
    "out of memory": ({"signal": 9, "oom_killed": True}, Outcome.OUT_OF_MEMORY),
    "segmentation fault": ({"signal": 11}, Outcome.ILLEGAL_MEMORY),
    "bus error": ({"signal": 7}, Outcome.ILLEGAL_MEMORY),
    "a forbidden call": ({"signal": 31}, Outcome.RUNTIME_ERROR),
    "killed": ({"signal": 9}, Outcome.RUNTIME_ERROR),
    "abort": ({"signal": 6}, Outcome.RUNTIME_ERROR),
    "exit 0": ({"exit_status": 0}, Outcome.RUNTIME_ERROR),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_has_its_outcome_and_a_sentence(how: str) -> None:
    death, outcome = DEATHS[how]

    finding = finding_of_death(death)

    assert finding.outcome is outcome
    assert finding.message.endswith(".")


class FakeLink(Link):
    """A worker that says a box ended by itself."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def end_box(self, box_id: int) -> dict[str, Any]:
        self.ended.append(box_id)
        return {"exit_status": 0}

    def check_cancelled(self) -> None:
        pass


class NoFreezer:
    """The box of these tests is a thread of ours, which nobody may stop."""

    def freeze(self) -> None:
        pass

    def thaw(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_freezer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "freezer_from", lambda data: NoFreezer())


Answer = Callable[[socket.socket, dict[str, Any]], None]


def ask_one_that(answer: Answer) -> dict[str, Any]:
    """Ask `calls` of a box that answers so."""
    ours, theirs = socket.socketpair()
    log_read, log_write = os.pipe()
    box = LentBox(Lent(id=1, wire_fd=ours.detach(), log_fd=log_read, freezer={}), FakeLink())
    channel = Channel(theirs)
    thread = threading.Thread(target=lambda: answer(theirs, channel.receive(5)[0]))
    thread.start()
    try:
        return box.ask("calls", 0.3)
    finally:
        os.close(log_write)
        box.close()
        thread.join()
        theirs.close()


def line(text: str) -> Answer:
    return lambda sock, question: sock.sendall(text.replace("NONCE", str(question["nonce"])).encode() + b"\n")


def with_descriptors(sock: socket.socket, question: dict[str, Any]) -> None:
    for _ in range(20):
        socket.send_fds(sock, [b" "], [0, 0, 0, 0])


ANSWERS: dict[str, tuple[Answer, Outcome, Gate | None]] = {
    "not JSON": (line("hello"), Outcome.REFUSED, None),
    "a list": (line("[]"), Outcome.REFUSED, None),
    "deep": (line("[" * 50000), Outcome.REFUSED, None),
    "NaN": (line('{"op": "calls", "nonce": NaN}'), Outcome.REFUSED, None),
    "many digits": (line('{"op": "calls", "nonce": ' + "9" * 6000 + "}"), Outcome.REFUSED, None),
    "another nonce": (line('{"op": "calls", "nonce": 5}'), Outcome.REFUSED, None),
    "true as nonce": (line('{"op": "calls", "nonce": true}'), Outcome.REFUSED, None),
    "another answer": (line('{"op": "bound", "nonce": NONCE}'), Outcome.REFUSED, None),
    "too long": (line('"' + "x" * 70000), Outcome.REFUSED, None),
    "descriptors": (with_descriptors, Outcome.REFUSED, None),
    "silence": (lambda sock, question: None, Outcome.TIMEOUT, None),
    "half a line": (lambda sock, question: sock.sendall(b'{"op":'), Outcome.TIMEOUT, None),
    "goodbye": (lambda sock, question: sock.shutdown(socket.SHUT_RDWR), Outcome.RUNTIME_ERROR, None),
    "an error of no kind": (line('{"op": "error", "nonce": NONCE, "kind": ["x"], "message": {"a": 1}, "line": "y"}'),
                            Outcome.RUNTIME_ERROR, None),
    "an error": (line('{"op": "error", "nonce": NONCE, "kind": "shape", "message": "c is short", "line": 3}'), Outcome.WRONG_SHAPE, None),
    "a device": (line('{"op": "error", "nonce": NONCE, "kind": "unsupported", "message": "no"}'), Outcome.REFUSED, Gate.DEVICE),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_a_box_answers_is_a_finding(what: str) -> None:
    answer, outcome, gate = ANSWERS[what]
    descriptors = len(os.listdir("/proc/self/fd"))

    with pytest.raises(Ended) as end:
        ask_one_that(answer)

    assert (end.value.finding.outcome, end.value.finding.gate) == (outcome, gate)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_an_answer_to_the_question_is_taken() -> None:
    assert ask_one_that(line('{"op": "calls", "nonce": NONCE, "claimed_us": [1.5]}'))["claimed_us"] == [1.5]
