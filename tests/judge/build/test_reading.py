"""What compilers print, read: the contestant's own line, and one row for each kernel."""

import time

import pytest

from kernelderby.judge.build.complaints import Place, log_of, message_of
from kernelderby.judge.build.ptxas import reports

PLACES = {"submission.cu": Place(file="kernel.cu", first_line=1), "cuda_sources[0]": Place(file="k.py", first_line=10)}
SAID = {
    "nvcc": ('submission.cu(12): error: identifier "x" is undefined', 'kernel.cu:12: identifier "x" is undefined'),
    "nvcc, a number": ("submission.cu(3): error #20: no", "kernel.cu:3: no"),
    "g++": ("cuda_sources[0]:2:5: error: expected ';'", "k.py:11: expected ';'"),
    "a missing header": ("submission.cu:1:10: fatal error: no.h: No such file", "kernel.cu:1: no.h: No such file"),
    "a header first": ("/usr/x.h(1): error: deep\nsubmission.cu(9): error: yours", "kernel.cu:9: yours"),
    "a header alone": ("/usr/include/x.h(1): error: deep", "x.h: deep"),
    "the linker": ("/usr/bin/ld: main.o: undefined reference to `f(int)'", "/usr/bin/ld: main.o: undefined reference to `f(int)'"),
    "a killed compiler": ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
                          "nvcc error : 'cicc' died due to signal 9 (Kill signal)"),
    "nothing": ("", "The compiler failed without a word."),
    "lines beyond all numbers": ("submission.cu(" + "9" * 5000 + "): error: x\nsubmission.cu:" + "9" * 5000 + ": error: y\n"
                                 "submission.cu:2:" + "9" * 5000 + ": error: z\nsubmission.cu(4): error: mine", "kernel.cu:4: mine"),
}


@pytest.mark.parametrize("what", SAID)
def test_the_message_is_the_first_error_at_the_contestants_own_line(what: str) -> None:
    log, message = SAID[what]

    assert message_of(log, PLACES) == message


def test_the_log_has_their_lines_and_nothing_of_the_report() -> None:
    log = "ptxas info    : Used 32 registers\n    0 bytes stack frame, 0 bytes spill stores\ncuda_sources[0](3): error: what\n   code\n"

    assert log_of([log, ""], PLACES, 1000) == "k.py:12: error: what\n   code"


def test_each_kernel_has_a_row_whatever_the_order() -> None:
    log = ("ptxas info    : Compiling entry function 'Qb' 'b<float>' for 'sm_90a'\n    8 bytes spill stores, 8 bytes spill loads\n"
           "ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem\n"
           "ptxas info    : Compiling entry function 'Qa' '(anonymous namespace)::a' for 'sm_90a'\nptxas info    : Used 8 registers\n")
    ptx = ".visible .entry a(\n)\n{ add.f32 }\n.visible .entry b(\n)\n{ wgmma.mma_async.sync }\n"

    b, a = reports(log, "sm_90a", ptx)

    assert (b.kernel, b.registers, b.shared_bytes, b.spills, b.tensor_core, b.would_launch) == ("b<float>", 32, 1024, 2, "wgmma", True)
    assert (a.kernel, a.registers, a.tensor_core) == ("a", 8, None)


def test_kernels_that_look_the_same_are_told_once() -> None:
    log = "".join(f"Compiling entry function 'Q{number}' '{'long' * 20}<{number}>' for 'sm_90a'\nUsed {registers} registers\n"
                  for number, registers in enumerate((8, 8, 16)))

    assert [row.registers for row in reports(log, "sm_90a", "")] == [8, 16]


def test_hostile_reports_give_no_row_that_cannot_be_held() -> None:
    log = "Compiling entry function 'Qx' 'x{}\x1b[31m' for 'sm_90a'\nUsed 99999999999999999999 registers, 999999999 bytes smem\n"

    rows = reports("".join(map(log.format, range(100))), "sm_90a", "")

    assert len(rows) == 32
    assert not rows[0].would_launch
    assert "\x1b" not in rows[0].kernel


@pytest.mark.parametrize("text", ["9" * 100_000, "9+" * 50_000, "Used " * 20_000, " " * 100_000, "a:1" * 30_000, "error" * 20_000],
                         ids=lambda text: text[:6])
def test_reading_takes_no_longer_than_the_text_is_long(text: str) -> None:
    """A name of a kernel may be any letters and digits, and nothing else of this process runs while it is searched."""
    started = time.monotonic()

    reports(f"Compiling entry function 'Qa' 'a' for 'sm_90a'\n{text}", "sm_90a", f".entry {text}")
    message_of(text, PLACES)
    log_of([text], PLACES, 1000)

    assert time.monotonic() - started < 2
