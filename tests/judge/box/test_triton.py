"""Triton kernels on a machine without a GPU: run by the interpreter, and compiled for GPUs that are not there."""

import pytest
import torch

from kernelderby.core.verdict import CompileReport
from tests.judge.box.driver import Driver

TARGETS = ["sm_90a", "sm_100a"]
HEAD = "import torch\nimport triton\nimport triton.language as tl\n"

ADD = HEAD + """
@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)

def custom_kernel(data):
    n = data.c.numel()
    add[(triton.cdiv(n, 128),)](data.a, data.b, data.c, n, BLOCK=128)
"""

MATMUL = HEAD + """
SCALE = tl.constexpr(1.0)

@triton.jit
def scaled(x):
    return x * SCALE

@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        total = tl.dot(tl.load(a + row[:, None] * n + at[None, :]), tl.load(b + at[:, None] * n + column[None, :]), total)
    total = scaled(total) + 0 * total.max(axis=1)[:, None]
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty))

def custom_kernel(data):
    n = data.c.shape[0]
    matmul[(n // 64, n // 64)](data.a, data.b, data.c, n, BLOCK=64, num_warps=4)
"""

CONFIGS = "@triton.autotune([triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 32})], key=['n'])\n"
AUTOTUNED = ADD.replace("@triton.jit", CONFIGS + "@triton.jit").replace(", BLOCK=128)", ")").replace(
    "(triton.cdiv(n, 128),)", "lambda chosen: (triton.cdiv(n, chosen['BLOCK']),)")


def bind_two(box: Driver, source: str, size: tuple[int, ...], dtype: torch.dtype) -> dict[str, object]:
    """Load and bind to a, b → c of one size and dtype."""
    assert box.load(source)["op"] == "loaded"
    a, b = (torch.randn(size).to(dtype) for _ in range(2))
    return box.bind({"a": a, "b": b}, {"c": torch.zeros(size, dtype=dtype)})


def one_line(statement: str) -> str:
    """A kernel of one program that computes c = `statement` from eight values each of x and y."""
    return HEAD + f"""
@triton.jit
def kernel(a, b, c):
    at = tl.arange(0, 8)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(c + at, {statement})

def custom_kernel(data):
    kernel[(1,)](data.a, data.b, data.c)
"""


@pytest.mark.parametrize("source", [ADD, AUTOTUNED], ids=["plain", "autotuned"])
def test_a_vector_add_runs_in_the_interpreter(box: Driver, source: str) -> None:
    assert bind_two(box, source, (1000,), torch.float32) == {"op": "bound", "plan_us": None}
    assert torch.equal(box.tensors["c"], box.tensors["a"] + box.tensors["b"])


def test_a_matmul_in_float16_runs_in_the_interpreter(box: Driver) -> None:
    bind_two(box, MATMUL, (128, 128), torch.float16)

    torch.testing.assert_close(box.tensors["c"].float(), box.tensors["a"].float() @ box.tensors["b"].float(), rtol=1e-2, atol=1e-1)


def test_a_dot_of_bfloat16_is_refused_with_what_to_do(box: Driver) -> None:
    answer = bind_two(box, MATMUL, (64, 64), torch.bfloat16)

    assert (answer["op"], answer["kind"], answer["line"]) == ("error", "unsupported", 18)
    assert str(answer["message"]).startswith("tl.dot of bfloat16 is wrong in Triton's interpreter") and "float16" in str(answer["message"])


@pytest.mark.parametrize("statement", ["x + y", "x * 2.0", "-x", "tl.where(x > y, x, y)", "tl.fma(x, y, x)", "x + tl.sum(x)"])
def test_arithmetic_on_bfloat16_is_refused(box: Driver, statement: str) -> None:
    answer = bind_two(box, one_line(statement), (8,), torch.bfloat16)

    assert (answer["op"], answer["kind"], answer["line"]) == ("error", "unsupported", 9)


@pytest.mark.parametrize(("statement", "expected"), [
    ("x", lambda x, y: x),
    ("(x.to(tl.float32) * 2 + y).to(tl.bfloat16)", lambda x, y: (x.float() * 2 + y.float()).bfloat16()),
    ("tl.where(at > 3, x, y)", lambda x, y: torch.cat([y[:4], x[4:]])),
    ("tl.maximum(x, y)", torch.maximum),
    ("tl.abs(x)", lambda x, y: x.abs()),
])
def test_what_the_interpreter_gets_right_on_bfloat16_runs(box: Driver, statement: str, expected: object) -> None:
    assert callable(expected)
    assert bind_two(box, one_line(statement), (8,), torch.bfloat16)["op"] == "bound"
    assert torch.equal(box.tensors["c"], expected(box.tensors["a"], box.tensors["b"]))


def test_an_error_in_a_kernel_has_the_kernels_line(box: Driver) -> None:
    answer = bind_two(box, one_line("x + nothing"), (8,), torch.float32)

    assert (answer["kind"], answer["line"], answer["message"]) == ("exception", 9, "NameError: name 'nothing' is not defined")
    assert [line for line in str(answer["traceback"]).splitlines() if "File" in line] == [
        '  File "submission.py", line 12, in custom_kernel', '  File "submission.py", line 9, in kernel']


def test_a_matmul_compiles_for_hopper_and_blackwell(box: Driver) -> None:
    bind_two(box, MATMUL, (128, 128), torch.float16)

    hopper, blackwell = box.ask("load", targets=TARGETS, deadline_s=60)["compile"]

    assert (hopper["kernel"], hopper["arch"], hopper["tensor_core"]) == ("matmul", "sm_90a", "wgmma")
    assert (blackwell["kernel"], blackwell["arch"]) == ("matmul", "sm_100a") and blackwell["tensor_core"] in ("tcgen05", "mma")
    for report in (hopper, blackwell):
        assert CompileReport.model_validate(report)
        assert 16 <= report["registers"] <= 255 and 0 < report["shared_bytes"] <= 227 * 1024 and report["spills"] == 0
        assert report["would_launch"] is True and report["message"] is None


def test_a_report_leaves_the_interpreter_as_it_was(box: Driver) -> None:
    bind_two(box, MATMUL, (64, 64), torch.float16)
    box.ask("load", targets=TARGETS, deadline_s=60)
    box.ask("arm", calls=1, first=1)

    assert box.call(1) == 0 and box.ask("calls")["op"] == "calls"


def test_an_autotuned_kernel_is_reported_as_it_ran(box: Driver) -> None:
    bind_two(box, AUTOTUNED, (1000,), torch.float32)

    report = box.ask("load", targets=["sm_90a"], deadline_s=60)["compile"]

    assert [(r["kernel"], r["would_launch"], r["tensor_core"]) for r in report] == [("add", True, None)]


def test_a_kernel_that_only_the_interpreter_takes_says_why_it_does_not_compile(box: Driver) -> None:
    bind_two(box, "FACTOR = 2\n" + one_line("x * FACTOR"), (8,), torch.float32)

    report, = box.ask("load", targets=["sm_90a"], deadline_s=60)["compile"]

    assert report["would_launch"] is False and report["message"].startswith("line 10: ") and "FACTOR" in report["message"]


def test_too_much_shared_memory_would_not_launch(box: Driver) -> None:
    greedy = MATMUL.replace("(n // 64, n // 64)", "(1, 1)").replace("BLOCK=64, num_warps=4", "BLOCK=128, num_warps=8, num_stages=8")
    bind_two(box, greedy, (128, 128), torch.float16)

    report, = box.ask("load", targets=["sm_90a"], deadline_s=60)["compile"]

    assert CompileReport.model_validate(report)
    assert report["shared_bytes"] > 227 * 1024 and report["would_launch"] is False and "shared memory" in report["message"]


def test_spilled_registers_are_counted(box: Driver) -> None:
    bind_two(box, MATMUL.replace("num_warps=4", "num_warps=1, maxnreg=32"), (64, 64), torch.float16)

    report, = box.ask("load", targets=["sm_90a"], deadline_s=60)["compile"]

    assert report["registers"] <= 32 and report["spills"] > 10


def test_launches_that_differ_are_told_apart_and_at_most_eight_are_compiled(box: Driver) -> None:
    many = ADD.replace("    add[", "    for warps in (1, 2, 4, 8):\n      for stages in (1, 2, 3):\n       add[").replace(
        "BLOCK=128)", "BLOCK=128, num_warps=warps, num_stages=stages)")
    bind_two(box, many, (256,), torch.float32)

    reports = box.ask("load", targets=["sm_90a"], deadline_s=60)["compile"]

    assert len(reports) == 8 and reports[0]["kernel"] == "add[num_warps=1, num_stages=1]"
    assert len({report["kernel"] for report in reports}) == 8


def test_what_was_not_compiled_by_the_deadline_says_so(box: Driver) -> None:
    bind_two(box, MATMUL, (64, 64), torch.float16)

    reports = box.ask("load", targets=TARGETS, deadline_s=0.001)["compile"]

    assert [report["arch"] for report in reports] == TARGETS
    assert all(report["message"] == "not compiled: the time for compile reports was over" for report in reports)


def test_a_source_without_triton_has_no_report(box: Driver) -> None:
    bind_two(box, "def custom_kernel(data):\n    return data.a + data.b\n", (8,), torch.float32)

    assert box.ask("load", targets=TARGETS, deadline_s=60) == {"op": "loaded", "compile": []}


def test_a_new_source_forgets_the_launches_of_the_last(box: Driver) -> None:
    bind_two(box, ADD, (8,), torch.float32)
    box.load("def custom_kernel(data):\n    pass\n")

    assert box.ask("load", targets=TARGETS, deadline_s=60)["compile"] == []
