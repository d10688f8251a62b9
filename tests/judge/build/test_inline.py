"""`load_inline` in two stages: what is believed of the first, what the second makes, and what the box finds."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import DEVICES
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.inline import InlineSource
from kernelderby.judge.build import builder as building
from kernelderby.judge.build.builder import Builder, needs_build
from kernelderby.judge.build.extract import MOST, NotTaken, extract, parse
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.pool import Pool

CPU, H200 = DEVICES["cpu"], DEVICES["h200"]
CALL = ("load_inline(name='hello', cpp_sources='int f();', cuda_sources=['__global__ void k() {}'], functions=['f'], "
        "extra_cuda_cflags=['-O3'])")
HEAD = "from torch.utils.cpp_extension import load_inline\n"
SEEN = InlineSource(name="hello", cpp_sources=("int f();",), cuda_sources=("__global__ void k() {}",), functions=(("f", "f"),),
                    extra_cuda_cflags=("-O3",))
ROW = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(SEEN).items()} | {"functions": [["f", "f"]]}


def test_a_file_that_does_not_speak_of_load_inline_costs_nothing() -> None:
    assert not needs_build(b"import triton", "k.py")
    assert needs_build(b"x = load_inline(", "k.py") and needs_build(b"", "K.CU")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(Bubblewrap(), "cpu", 2)
    yield pool
    pool.close()


FILES = {      # each makes the one call, and then something that must not matter
    "plain": f"m = {CALL}\ndef custom_kernel(data): pass\n",
    "by position and twice": f"m = {CALL}\nm = {CALL}\n",
    "fails afterwards": f"m = {CALL}\nimport torch\ntorch.zeros(1, device='cuda')\n",
    "uses the extension at once": f"m = {CALL}\nm.f()\n",
    "exits": f"m = {CALL}\nimport sys\nsys.exit(3)\n",
    "swaps the compiler": f"import os, subprocess\nos.environ['PATH'] = '/tmp'\nopen('/tmp/nvcc', 'w').write('#!/bin/sh')\n"
                          f"subprocess.Popen = None\nm = {CALL}\n",
}


@pytest.mark.parametrize("what", FILES)
def test_what_was_called_is_taken_as_data_whatever_comes_after(what: str, pool: Pool) -> None:
    pool.refill()

    assert extract(pool, (HEAD + FILES[what]).encode(), lambda: False) == [SEEN]


SILENT = {"leaves": "import os\nos._exit(0)", "prints": "while True: print('x' * 9999)", "calls nothing": "x = 1"}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_a_file_that_says_nothing_has_no_sources(body: str, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.build.extract._WITHIN_S", 5.0)

    assert extract(pool, f"{HEAD}{body}".encode(), lambda: False) == []


LIES: dict[str, Any] = {
    "no list": {"name": "x"}, "too many": [ROW] * (MOST + 1), "no row": ["x"], "a path for a name": [ROW | {"name": "../../x"}],
    "flags in a name": [ROW | {"name": "x -o y"}], "a number for a source": [ROW | {"cpp_sources": [1]}],
    "no list of sources": [ROW | {"cuda_sources": "x"}], "too long": [ROW | {"cpp_sources": ["x" * (1 << 20)]}],
    "too long in bytes": [ROW | {"cpp_sources": ["\u20ac" * (1 << 19)]}],
    "long docstrings": [ROW | {"functions": [["f", "x" * (1 << 20)]]}],
    "code for a function": [ROW | {"functions": [["f); system(", "f"]]}], "a missing key": [{"name": "x"}],
    "a number for functions": [ROW | {"functions": 3}],
}


@pytest.mark.parametrize("what", LIES)
def test_a_lie_about_the_sources_is_a_sentence(what: str) -> None:
    with pytest.raises(NotTaken):
        parse(LIES[what])


def test_both_sides_make_the_same_key_and_any_change_another() -> None:
    (taken,) = parse([ROW])

    assert taken.key() == SEEN.key()
    for change in ({"name": "other"}, {"cpp_sources": ["int g();"]}, {"functions": None}, {"extra_cflags": ["-O1"]}):
        assert parse([ROW | change])[0].key() != SEEN.key()


CPP = "torch::Tensor twice(torch::Tensor x) {\n  return x.add(x);\n}\n"
CUDA = """
__global__ void twice_kernel(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
torch::Tensor twice(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "a tensor on the GPU");
  auto y = torch::empty_like(x);
  twice_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""


def _file(cuda: str = CUDA, cpp: str = "torch::Tensor twice(torch::Tensor x);") -> bytes:
    return (f'{HEAD}CUDA = """{cuda}"""\nCPP = """{cpp}"""\n'
            "m = load_inline(name='twice', cpp_sources=CPP, cuda_sources=CUDA or None, functions=['twice'])\n").encode()


@pytest.mark.slow
def test_a_hello_world_becomes_a_library_by_the_key_that_the_box_will_look_for(builder: Builder) -> None:
    first, again = (builder.build(_file(), "k.py", H200) for _ in range(2))

    assert first.finding is None and len(first.artifacts) == 1
    assert [(row.kernel, row.arch) for row in first.report] == [("twice_kernel", "sm_90a")]
    assert again.is_cached and again.artifacts == first.artifacts and again.seconds < 0.05


@pytest.mark.slow
def test_an_error_is_told_at_its_line_in_the_python_file(builder: Builder) -> None:
    finding = builder.build(_file(CUDA.replace("2 * x[i]", "2 * z[i]")), "mine.py", H200).finding

    assert finding and finding.outcome is Outcome.COMPILE_ERROR
    assert finding.message == 'mine.py:5: identifier "z" is undefined'


def test_cuda_on_a_class_without_gpu_is_refused_with_a_report(builder: Builder) -> None:
    build = builder.build(_file(), "k.py", CPU)

    assert build.finding and (build.finding.outcome, build.finding.gate) == (Outcome.REFUSED, Gate.DEVICE)
    assert [row.arch for row in build.report] == ["sm_90a", "sm_100a"]


def test_a_flag_that_is_not_allowed_is_a_compile_error(builder: Builder) -> None:
    source = _file().replace(b"functions=", b"extra_cuda_cflags=['-fplugin=/tmp/x.so'], functions=")

    finding = builder.build(source, "k.py", H200).finding

    assert finding and finding.outcome is Outcome.COMPILE_ERROR and "-fplugin" in finding.message


def test_what_one_file_was_extracted_to_never_serves_another(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box may lie about its sources: the lie is kept under its own file's hash and under what was compiled, so it reaches nobody else."""
    honest, liar = _file("", CPP), _file("", CPP) + b"# lies\n"
    lie = InlineSource(name="twice", cpp_sources=(CPP.replace("x.add(x)", "x"),), functions=(("twice", "twice"),))
    with monkeypatch.context() as patched:
        patched.setattr(building, "extract", lambda pool, source, cancelled: [lie])
        lied = builder.build(liar, "k.py", CPU)

    told = builder.build(honest, "k.py", CPU)

    assert set(lied.artifacts) == {lie.key()}
    assert told.finding is None and lie.key() not in told.artifacts and len(told.artifacts) == 1


def test_the_cache_is_not_to_be_seen_from_any_box(builder: Builder, tmp_path: Path) -> None:
    folder = tmp_path / "builds"
    folder.mkdir()
    source = (f"#include \"{folder}/x.h\"\n").encode()
    (folder / "x.h").write_text("#error reached\n")

    build = builder.build(source, "k.cu", H200)

    assert "reached" not in build.log and os.path.exists(folder / "x.h")


USUAL = """
#include <torch/extension.h>
#include <ATen/ATen.h>
__global__ void halve(float* x) { x[threadIdx.x] /= 2; }
torch::Tensor work(torch::Tensor x, int64_t n, double scale, bool flag) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "two axes, please");
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
  auto a = torch::zeros({x.size(0), n}, options);
  auto b = torch::empty({n}, torch::dtype(torch::kInt32).device(torch::kCPU));
  auto c = at::full({2}, scale, x.options()), d = torch::empty_like(x), e = torch::ones({2, 2}, options);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "work", [&] { d.data_ptr<scalar_t>(); });
  halve<<<1, 32>>>(a.data_ptr<float>());
  return flag ? a.view({-1}).to(torch::kBFloat16) : d.t().contiguous();
}
"""


@pytest.mark.slow
def test_what_kernels_usually_use_of_pytorch_compiles_with_the_trimmed_headers(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.build.recipes._WANTS_MORE", "never", raising=True)
    source = _file(USUAL, "torch::Tensor work(torch::Tensor x, int64_t n, double scale, bool flag);").replace(b"['twice']", b"['work']")

    build = builder.build(source, "k.py", H200)

    assert build.finding is None, build.finding


def test_a_build_from_nothing_is_not_said_to_come_from_the_cache(tmp_path: Path) -> None:
    with_toolkit = Builder(Bubblewrap(), tmp_path)
    try:
        build = with_toolkit.build(b"# load_inline\n", "k.py", CPU)
    finally:
        with_toolkit.close()

    assert (build.finding, build.artifacts, build.is_cached) == (None, {}, False)
