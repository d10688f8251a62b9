"""Binding tensors, serving calls, and what a kernel may return."""

from collections.abc import Mapping

import pytest
import torch

from kernelderby.judge.box import pages
from tests.judge.box.driver import Driver

A, B = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
ADD = "import torch\ndef custom_kernel(data):\n    data.c.copy_(data.a + data.b)\n"


def bind_add(box: Driver, source: str = ADD, **rest: object) -> dict[str, object]:
    """Load `source` and bind it to a, b → c."""
    assert box.load(source)["op"] == "loaded"
    return box.bind({"a": A, "b": B}, {"c": torch.full((2, 3), -1.0)}, **rest)


@pytest.mark.parametrize("body", [
    "data.c.copy_(data.a + data.b)",
    "return data.a + data.b",
    "return torch.add(data.a, data.b, out=data.c)",
    "return (data.a.T + data.b.T).T",
    "return [data.a + data.b]",
    "return {'c': data.a + data.b}",
    "return (data.a + data.b).requires_grad_()",
    "a, b, c = data; c[:] = a + b",
])
def test_outputs_may_be_filled_or_returned(box: Driver, body: str) -> None:
    answer = bind_add(box, f"import torch\ndef custom_kernel(data):\n    {body}\n", warmups=1)

    assert answer == {"op": "bound", "plan_us": None}
    assert torch.equal(box.tensors["c"], A + B)


@pytest.mark.parametrize(("returned", "kind", "says"), [
    ("data.a[0]", "shape", "c has the shape (2, 3), but custom_kernel returned (3,)"),
    ("(data.a, data.b)", "shape", "returned 2 values; it must return 1 (c, in this order)"),
    ("()", "shape", "returned 0 values"),
    ("{'d': data.a}", "shape", "keys d; they must be c"),
    ("data.a.half()", "dtype", "c is torch.float32, but custom_kernel returned torch.float16: convert it with .to(torch.float32)"),
    ("data.a.to('meta')", "dtype", "c lies on cpu, but custom_kernel returned a tensor on meta"),
    ("data.a.to_sparse()", "dtype", "torch.sparse_coo: convert it with .to_dense()"),
    ("torch.nn.Parameter(data.a)", "dtype", "return a plain torch.Tensor"),
    ("3.0", "dtype", "returned a float; return a torch.Tensor"),
    ("data.a.numpy()", "dtype", "returned a numpy.ndarray; return a torch.Tensor"),
])
def test_a_wrong_return_value_says_what_to_do(box: Driver, returned: str, kind: str, says: str) -> None:
    answer = bind_add(box, f"import torch\ndef custom_kernel(data):\n    return {returned}\n")

    assert (answer["op"], answer["kind"]) == ("error", kind)
    assert says in str(answer["message"])


def test_a_name_that_data_lacks_is_answered_with_those_it_has(box: Driver) -> None:
    answer = bind_add(box, "def custom_kernel(data):\n    data.out.zero_()\n", warmups=1)

    assert (answer["kind"], answer["line"]) == ("exception", 2)
    assert str(answer["message"]).endswith("has no attribute 'out'; it has a, b, c.")


def test_data_holds_inputs_then_outputs_with_numbers_as_they_are(box: Driver) -> None:
    box.load("def custom_kernel(data):\n    assert data._fields == ('x', 'scale', 'n', 'y', 'z'), data._fields\n"
             "    assert data.scale == 0.5 and data.n == 3\n    data.y.fill_(data.n)\n    data.z.fill_(True)\n")
    outputs = {"y": torch.zeros(4, dtype=torch.bfloat16), "z": torch.zeros(0, 2, dtype=torch.bool)}

    assert box.bind({"x": torch.zeros(3), "scale": 0.5, "n": 3}, outputs)["op"] == "bound"
    assert box.tensors["y"].tolist() == [3.0] * 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
                                   "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_dtype_of_a_problem_can_be_bound(box: Driver, dtype: str) -> None:
    values = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, dtype))
    box.load("def custom_kernel(data):\n    return data.x\n")

    assert box.bind({"x": values}, {"y": torch.zeros_like(values)})["op"] == "bound"
    assert torch.equal(box.tensors["y"].view(torch.uint8), values.view(torch.uint8))


def test_a_plan_runs_before_the_warm_up_and_is_timed(box: Driver) -> None:
    answer = bind_add(box, "import time\ndef plan(data):\n    global half\n    time.sleep(0.02)\n    half = 0.5\n"
                           "def custom_kernel(data):\n    data.c.fill_(half)\n")

    assert isinstance(answer["plan_us"], float) and answer["plan_us"] >= 20_000
    assert box.tensors["c"].unique().tolist() == [0.5]


@pytest.mark.parametrize("warmups", [0, 1, 3])
def test_warm_ups_are_as_many_as_asked(box: Driver, warmups: int) -> None:
    bind_add(box, "n = 0\ndef custom_kernel(data):\n    global n\n    n += 1\n    data.c.fill_(n)\n", warmups=warmups)

    assert box.tensors["c"].unique().tolist() == [float(warmups or -1)]


def test_calls_see_new_inputs_and_are_counted(box: Driver) -> None:
    bind_add(box)
    assert box.ask("arm", calls=3, first=1) == {"op": "armed"}
    for number in (1, 2, 3):
        box.tensors["a"].fill_(number)
        assert box.call(number) == pages.OK
        assert torch.equal(box.tensors["c"], number + B)

    answer = box.ask("calls")

    assert answer["op"] == "calls" and len(answer["claimed_us"]) == 3 and all(us > 0 for us in answer["claimed_us"])


def test_a_second_arm_goes_on_counting(box: Driver) -> None:
    bind_add(box)
    counted = []
    for first, calls in ((1, 2), (3, 1)):
        box.ask("arm", calls=calls, first=first)
        counted += [box.call(number) for number in range(first, first + calls)]
        assert len(box.ask("calls")["claimed_us"]) == calls

    assert counted == [pages.OK] * 3 and box.done.read(pages.CALL) == 3


def test_the_stop_word_ends_serving_early(box: Driver) -> None:
    bind_add(box)
    box.ask("arm", calls=5, first=1)
    box.call(1)
    box.stop()

    assert len(box.ask("calls")["claimed_us"]) == 1


def test_no_call_starts_before_its_go(box: Driver) -> None:
    bind_add(box, "import torch\ndef custom_kernel(data):\n    data.c.add_(1)\n", warmups=0)
    box.ask("arm", calls=1, first=1)
    box.done.wait(pages.CALL, 0, 0.2)

    assert box.done.read(pages.CALL) == 0 and box.tensors["c"].unique().tolist() == [-1.0]
    assert box.call(1) == pages.OK and box.tensors["c"].unique().tolist() == [0.0]


def test_a_null_bind_serves_calls_that_do_nothing(box: Driver) -> None:
    bind_add(box, null=True)
    box.ask("arm", calls=2, first=1)

    assert [box.call(1), box.call(2)] == [pages.OK, pages.OK]
    assert box.tensors["c"].unique().tolist() == [-1.0] and len(box.ask("calls")["claimed_us"]) == 2


FAILS_LATER = """\
def inner(x):
    raise ValueError("not today")

n = 0
def custom_kernel(data):
    global n
    n += 1
    if n > 2:
        inner(data.a)
"""


def test_a_call_that_raises_is_told_by_the_next_answer_with_their_frames_alone(box: Driver) -> None:
    bind_add(box, FAILS_LATER)
    box.ask("arm", calls=3, first=1)
    assert [box.call(1), box.call(2)] == [pages.OK, pages.FAILED]

    answer = box.ask("calls")

    assert (answer["op"], answer["kind"], answer["line"]) == ("error", "exception", 2)
    assert answer["message"] == "ValueError: not today"
    assert answer["traceback"].splitlines() == [
        "Traceback (most recent call last):",
        '  File "submission.py", line 9, in custom_kernel', "    inner(data.a)",
        '  File "submission.py", line 2, in inner', '    raise ValueError("not today")',
        "ValueError: not today",
    ]


def test_an_error_is_told_once_and_the_next_arm_starts_clean(box: Driver) -> None:
    bind_add(box, FAILS_LATER.replace("n > 2", "n == 2"))
    box.ask("arm", calls=1, first=1)
    assert box.call(1) == pages.FAILED and box.ask("calls")["op"] == "error"

    box.ask("arm", calls=1, first=2)

    assert box.call(2) == pages.OK and box.ask("calls")["op"] == "calls"


@pytest.mark.parametrize(("body", "kind"), [
    ("raise SystemExit(0)", "exception"),
    ("raise KeyboardInterrupt", "exception"),
    ("return custom_kernel(data)", "exception"),
    ("return torch.empty(2**50)", "memory"),
    ("import flash_attn_9", "import"),
    ("return data.a @ data.b", "exception"),
    ("return data.nothing", "exception"),
])
def test_what_a_call_raises_gets_its_kind(box: Driver, body: str, kind: str) -> None:
    answer = bind_add(box, f"import torch\ndef custom_kernel(data):\n    {body}\n")

    assert (answer["op"], answer["kind"], answer["line"]) == ("error", kind, 3)


def test_after_an_error_another_source_works(box: Driver) -> None:
    assert bind_add(box, "def custom_kernel(data):\n    raise ValueError\n")["op"] == "error"

    assert bind_add(box)["op"] == "bound"


def test_the_same_seed_draws_the_same_numbers(box: Driver) -> None:
    source = "import torch\nx = torch.rand(())\ndef custom_kernel(data):\n    data.c.fill_(x)\n"
    drawn = []
    for seed in (1, 1, 2):
        box.load(source, seed=seed)
        box.bind({}, {"c": torch.zeros(1)})
        drawn.append(box.tensors["c"].item())

    assert drawn[0] == drawn[1] != drawn[2]


def shapes() -> Mapping[str, torch.Tensor]:
    """Two outputs that differ in everything."""
    return {"output": torch.zeros(2, 3), "lse": torch.zeros(2, dtype=torch.float64)}


@pytest.mark.parametrize(("returned", "says"), [
    ("(torch.ones(2, 3), torch.ones(2).double())", None),
    ("{'lse': torch.ones(2).double(), 'output': torch.ones(2, 3)}", None),
    ("torch.ones(2, 3)", "returned 1 value; it must return 2 (output, lse, in this order)"),
    ("(torch.ones(2).double(), torch.ones(2, 3))", "output has the shape (2, 3)"),
    ("(torch.ones(2, 3), torch.ones(2))", "lse is torch.float64"),
    ("(torch.ones(2, 3), None)", "For lse custom_kernel returned a NoneType"),
])
def test_several_outputs_are_returned_in_order_or_by_name(box: Driver, returned: str, says: str | None) -> None:
    box.load(f"import torch\ndef custom_kernel(data):\n    return {returned}\n")

    answer = box.bind({}, shapes())

    assert says in answer["message"] if says else all((box.tensors[name] == 1).all() for name in shapes())
