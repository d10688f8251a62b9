"""`.cu` files in real compilers: libraries, reports, sentences, and sources that attack the compiler."""

import time
from pathlib import Path

import pytest

from kernelderby.core.devices import DEVICES
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.build import workshop
from kernelderby.judge.build.builder import CU_KEY, Builder
from kernelderby.judge.build.toolkit import Toolkit
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap

ROOT = Path(__file__).parents[3]
STARTER = (ROOT / "problems/warmup/vector_add/starter.cu").read_bytes()
H200, CPU = DEVICES["h200"], DEVICES["cpu"]
EXPORT = b"""
#include <tvm/ffi/function.h>
void run(int64_t n) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, run);
"""
WGMMA = b"""
__global__ void multiply() { asm volatile("wgmma.fence.sync.aligned;"); }
""" + EXPORT


def test_a_cu_becomes_a_library_and_a_row_for_each_kernel_then_comes_from_the_cache(builder: Builder) -> None:
    first, again = (builder.build(STARTER, "starter.cu", H200) for _ in range(2))

    assert first.finding is None and first.artifacts[CU_KEY].startswith(b"\x7fELF")
    assert {row.kernel for row in first.report} == {"add<float>", "add<__half>", "add<__nv_bfloat16>"}
    assert all(row.arch == "sm_90a" and row.registers and row.would_launch for row in first.report)
    assert again.is_cached and (again.artifacts, again.report) == (first.artifacts, first.report)
    assert again.seconds < 0.05


def test_on_a_class_without_gpu_it_is_compiled_for_both_targets_and_refused(builder: Builder) -> None:
    build = builder.build(STARTER, "starter.cu", CPU)

    assert build.finding and (build.finding.outcome, build.finding.gate) == (Outcome.REFUSED, Gate.DEVICE)
    assert [row.arch for row in build.report] == ["sm_90a"] * 3 + ["sm_100a"] * 3
    assert not build.artifacts


def test_what_one_target_alone_can_do_is_told_for_each(builder: Builder) -> None:
    build = builder.build(WGMMA, "k.cu", CPU)

    assert build.finding and build.finding.outcome is Outcome.REFUSED
    assert [(row.arch, row.would_launch) for row in build.report] == [("sm_90a", True), ("sm_100a", False)]


def test_without_a_toolkit_it_is_refused_with_what_to_install(tmp_path: Path) -> None:
    builder = Builder(Bubblewrap(), tmp_path, find=lambda: Toolkit(cuda=None, gxx=None))

    finding = builder.build(STARTER, "starter.cu", CPU).finding

    assert finding and (finding.outcome, finding.gate) == (Outcome.REFUSED, Gate.DEVICE)
    assert "Install NVIDIA's toolkit" in finding.message


SENTENCES = {
    "no such name": (b"__global__ void k() {\n  nothing = 1;\n}\n" + EXPORT, 'mine.cu:2: identifier "nothing" is undefined'),
    "no such header": (b"\n\n#include <no_such_header.h>\n", "mine.cu:3: no_such_header.h: No such file or directory"),
    "no export": (b"__global__ void k() {}\n", "TVM_FFI_DLL_EXPORT_TYPED_FUNC"),
    "too much shared memory": (b"__global__ void k(int* p) { __shared__ int s[100000]; s[threadIdx.x] = 1; __syncthreads(); *p = s[*p]; }\n"
                               + EXPORT, "uses too much shared data"),
}


@pytest.mark.parametrize("what", SENTENCES)
def test_a_compile_error_names_the_contestants_line(what: str, builder: Builder) -> None:
    source, sentence = SENTENCES[what]

    finding = builder.build(source, "mine.cu", H200).finding

    assert finding and finding.outcome is Outcome.COMPILE_ERROR
    assert sentence in finding.message


SECRET = "this-is-a-secret-of-the-host"
HOSTILE = {      # each is refused by the compiler or by a limit; none may tell anything of the host, or harm it
    "reads the environment": b'#include "/proc/self/environ"\n',
    "reads the parent's environment": b'#include "/proc/1/environ"\n',
    "includes a private file": b'#include "/tmp/derby-secret-for-a-test"\n',
    "embeds a private file": b'asm(".incbin \\"/tmp/derby-secret-for-a-test\\"");\n' + EXPORT,
    "embeds the password file": b'asm(".incbin \\"/etc/shadow\\"");\n' + EXPORT,
    "fills gigabytes": b'asm(".fill 0x7fffffff, 8, 0");\n' + EXPORT,
    "recurses in templates": b"template <int N> struct A { static const int v = A<N + 1>::v; }; int x = A<0>::v;\n",
    "claims a line beyond all numbers": b'#line 7 "a\\nsubmission.cu:' + b"9" * 5000 + b': error: you"\n#error hi\n',
    "prints without end": b"#if __INCLUDE_LEVEL__ < 190\n#warning " + b"x" * 60_000 + b"\n#include __FILE__\n#endif\n#error end\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_source_that_attacks_the_compiler_gets_a_sentence_and_learns_nothing(
        what: str, builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERBY_SECRET", SECRET)
    secret = Path("/tmp/derby-secret-for-a-test")
    secret.write_text(f"#error {SECRET}\n")
    started = time.monotonic()
    try:
        build = builder.build(HOSTILE[what], "k.cu", H200)
    finally:
        secret.unlink()

    assert build.finding and build.finding.outcome is Outcome.COMPILE_ERROR
    assert SECRET not in build.log + build.finding.message and not build.artifacts
    assert len(build.log) <= 64 * 1024
    assert time.monotonic() - started < 60


SLOW = b"template <int A, int B> struct F { static constexpr long v = F<A - 1, 2 * B>::v + F<A - 1, 2 * B + 1>::v; };\n" \
       b"template <int B> struct F<0, B> { static constexpr long v = B; }; constexpr long x = F<24, 0>::v;\n" + EXPORT


def test_a_compiler_that_takes_too_long_is_stopped(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "COMPILE_S", 3.0)

    finding = builder.build(SLOW, "k.cu", H200).finding

    assert finding and finding.outcome is Outcome.COMPILE_ERROR and "took longer" in finding.message


def test_a_compiler_that_takes_too_much_memory_is_stopped(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "MEMORY_BYTES", 200 << 20)

    finding = builder.build(SLOW + b"// again\n", "k.cu", H200).finding

    assert finding and finding.outcome is Outcome.COMPILE_ERROR


def test_a_cancelled_build_ends_soon(builder: Builder) -> None:
    finding = builder.build(SLOW + b"// cancelled\n", "k.cu", H200, cancelled=lambda: True).finding

    assert finding and finding.outcome is Outcome.CANCELLED
