"""What a peer may say is a number only when it is one, finite and in range."""

import json
import os
import socket
import threading
from typing import Any

import pytest

from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Breach, Channel, number, parse

NONE = [float("nan"), float("inf"), -float("inf"), -1, -1e-9, 101, 10**400, -(10**4000), True, "1", None, [1], {}]


@pytest.mark.parametrize("value", NONE, ids=lambda value: str(value)[:12])
def test_what_is_no_number_in_range_is_a_breach(value: Any) -> None:
    with pytest.raises(Breach):
        number({"x": value}, "x", 0.0, 100.0)


@pytest.mark.parametrize("value", [0, 100, 0.0, 1e-300, 99.9])
def test_a_number_in_range_is_taken(value: float) -> None:
    assert number({"x": value}, "x", 0.0, 100.0) == value


@pytest.mark.parametrize("line", ["NaN", "[NaN]", '{"x": Infinity}', "[1]", "1" * 60_000, "[" * 60_000, '{"x":' * 10_000, "", '{"x": 1}}'])
def test_a_line_that_is_no_object_of_finite_numbers_is_a_breach(line: str) -> None:
    with pytest.raises(Breach):
        parse(line.encode())


def test_a_number_of_thousands_of_digits_is_read_and_then_refused() -> None:
    with pytest.raises(Breach):
        number(parse(json.dumps({"x": 10**4000}).encode()), "x", 0.0, 1e300)


@pytest.mark.parametrize("sent", ["-f", "f-", "-f-", "--f", "f-f", "-f-f-", "F-", "-F-f", "fF"])
def test_a_descriptor_comes_with_the_line_it_was_sent_with(sent: str) -> None:
    """However many lines one read brings: `f` has descriptors, `F` has them and is long."""
    ours, theirs = socket.socketpair()
    writer, reader = Channel(ours, TRUSTED_LIMIT_BYTES), Channel(theirs, TRUSTED_LIMIT_BYTES)
    pipe = os.pipe()

    def send() -> None:
        for kind in sent:
            writer.send({"kind": kind, "text": "x" * (400_000 if kind == "F" else 1)}, pipe if kind in "fF" else ())

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.2 if "F" in sent else 5)      # as much as fits waits to be read at once
    try:
        for kind in sent:
            message, fds = reader.receive(5)
            assert (message["kind"], len(fds)) == (kind, 2 if kind in "fF" else 0)
            for fd in fds:
                os.close(fd)
    finally:
        thread.join(5)
        for channel in (writer, reader):
            channel.close()
        for fd in pipe:
            os.close(fd)
