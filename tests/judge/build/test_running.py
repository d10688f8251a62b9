"""What was built, run: a library in a box, an extension in a judging. No GPU: the functions work on host memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelderby.core.devices import DEVICES
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict
from kernelderby.judge.box import pages
from kernelderby.judge.box.inline import NOT_SEEN
from kernelderby.judge.box.wire import sealed_file
from kernelderby.judge.build.builder import CU_KEY, Builder
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge, open_judge
from tests.judge.box.driver import Driver
from tests.needs import needs

CPU, H200 = DEVICES["cpu"], DEVICES["h200"]
TINY = Path(__file__).parents[1] / "tiny"
HOST_CU = b"""
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

void scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView y) {
  TVM_FFI_ICHECK(x.size(0) > 1) << "one element is too few";
  for (int64_t i = 0; i < x.size(0); ++i)
    static_cast<float*>(y.data_ptr())[i] = static_cast<float>(factor) * static_cast<const float*>(x.data_ptr())[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, scale);
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("box")) as driver:
        yield driver


def load(box: Driver, library: bytes) -> dict[str, Any]:
    fds = [sealed_file(HOST_CU), sealed_file(library)]
    return box.ask("load", fds, file_name="submission.cu", artifacts=[{"key": CU_KEY, "size": len(library)}])


def test_a_library_is_called_with_inputs_numbers_and_outputs(builder: Builder, box: Driver) -> None:
    library = builder.build(HOST_CU, "k.cu", H200).artifacts[CU_KEY]
    assert load(box, library) == {"op": "loaded", "has_plan": False}

    x = torch.arange(8, dtype=torch.float32)
    box.bind({"x": x, "factor": 3.0}, {"y": torch.zeros(8)}, warmups=0)
    box.ask("arm", first=1, calls=1)

    assert box.call(1) == pages.OK
    assert torch.equal(box.tensors["y"], 3 * x)


def test_what_a_library_raises_is_told(builder: Builder, box: Driver) -> None:
    load(box, builder.build(HOST_CU, "k.cu", H200).artifacts[CU_KEY])

    answer = box.bind({"x": torch.ones(1), "factor": 3.0}, {"y": torch.zeros(1)})

    assert answer["op"] == "error" and "one element is too few" in answer["message"]


def test_other_arguments_than_the_problem_has_are_told(builder: Builder, box: Driver) -> None:
    load(box, builder.build(HOST_CU, "k.cu", H200).artifacts[CU_KEY])

    answer = box.bind({"x": torch.ones(4)}, {"y": torch.zeros(4)})

    assert answer["op"] == "error" and "Expected 3 but got 2 arguments" in answer["message"]


@pytest.mark.parametrize("library", [b"", b"no library", b"\x7fELF and no more"], ids=["empty", "text", "cut"])
def test_what_cannot_be_opened_is_told(library: bytes, box: Driver) -> None:
    assert load(box, library)["op"] == "error"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    needs("nvcc")
    with open_judge(Settings(data=tmp_path_factory.mktemp("data"), warm_boxes=1), "bubblewrap") as judge:
        yield judge


def judged(judge: Judge, source: str | bytes, file_name: str, told: list[Any] | None = None) -> Verdict:
    content = source if isinstance(source, bytes) else source.encode()
    job = Job(submission=None, attempt=1, problem=tiny(), device=CPU, mode=Mode.TEST, file_name=file_name, source=content, seed=b"s" * 32)
    return judge.judge(job, lambda kind, data: (told if told is not None else []).append((kind, data)), lambda: False)


def tiny() -> Problem:
    return load_problem(TINY / "problems/warmup/double")


def test_a_cu_on_a_class_without_gpu_is_refused_with_its_report(judge: Judge) -> None:
    told: list[Any] = []

    verdict = judged(judge, HOST_CU + b"__global__ void k() {}\n", "k.cu", told)

    assert (verdict.outcome, verdict.gate) == (Outcome.REFUSED, Gate.DEVICE)
    assert [row.arch for row in verdict.compile] == ["sm_90a", "sm_100a"]
    assert [(kind, data["message"].split()[0]) for kind, data in told] == [("build", "Compiling"), ("build", "Not")]
    assert 0 < verdict.stages_s["build"] <= verdict.stages_s["total"]


def test_a_cu_that_does_not_compile_is_a_verdict_with_its_line_and_log(judge: Judge) -> None:
    verdict = judged(judge, b"\n\nint x = y;\n", "k.cu")

    assert (verdict.outcome, verdict.gate, verdict.message) == (Outcome.COMPILE_ERROR, None, 'k.cu:3: identifier "y" is undefined')
    assert verdict.log and "k.cu:3: error" in verdict.log


INLINE = '''
from torch.utils.cpp_extension import load_inline
CPP = """
void run(torch::Tensor x, torch::Tensor w, double factor, torch::Tensor y) {
  y.copy_(x.mul(factor).mul(w));
}
"""
def extension():
    return load_inline(name="tiny", cpp_sources=CPP, functions=["run"])
'''


@pytest.mark.slow
def test_an_extension_in_cpp_is_built_off_the_box_and_imported_there(judge: Judge) -> None:
    source = (f"{INLINE}\nmodule = extension()\ndef custom_kernel(data):\n    module.run(data.x, data.w, data.factor, data.y)\n"
              "    data.total.copy_(data.y.sum(1))\n")

    first, again = (judged(judge, source, "k.py") for _ in range(2))

    assert first.accepted, first.message
    assert again.accepted and again.stages_s["build"] < 0.05


def test_an_extension_that_is_made_in_a_call_was_not_compiled(judge: Judge) -> None:
    verdict = judged(judge, f"{INLINE}\ndef custom_kernel(data):\n    extension()\n", "k.py")

    assert verdict.outcome is Outcome.RUNTIME_ERROR
    assert NOT_SEEN in (verdict.message or "")


def test_load_from_files_is_refused_with_what_to_do(judge: Judge) -> None:
    source = "import torch.utils.cpp_extension as e\nload_inline = 0\ne.load(name='x', sources=['x.cpp'])\ndef custom_kernel(data): pass\n"

    verdict = judged(judge, source, "k.py")

    assert verdict.outcome is Outcome.RUNTIME_ERROR and "load_inline" in (verdict.message or "")
