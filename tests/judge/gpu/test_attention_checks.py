"""What checks of the attention problems cost on a GPU, and whether the fused baseline is what the statement says."""

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from kernelderby.core.devices import device
from kernelderby.core.problem import Case
from kernelderby.judge.referee.checking import CaseCheck
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds, hidden_cases
from kernelderby.judge.referee.kinds import GPU
from tests.problems.loading import problem

pytestmark = pytest.mark.gpu
NAMES = ("gqa_paged_decode", "prefill_causal")


def drawn_hidden(name: str, gpu: str) -> Iterator[tuple[ProblemCode, Case, Drawn, Seeds]]:
    code, seeds = ProblemCode(problem(name), GPU), Seeds(os.urandom(32), "cuda")
    for case in hidden_cases(problem(name), device(gpu), seeds):
        yield code, case, code.draw(case, seeds.generator(case.name)), seeds


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_passes_every_hidden_case(name: str, gpu: str) -> None:
    for code, case, drawn, seeds in drawn_hidden(name, gpu):
        assert CaseCheck(code, case, seeds).check("x", drawn, code.baseline(drawn.data, case)) is None, case


def test_the_oracle_of_paged_decode_waits_for_nothing(gpu: str) -> None:
    for code, _, drawn, _ in drawn_hidden("gqa_paged_decode", gpu):
        rows = torch.arange(5, device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        try:
            code.reference(drawn.data, rows)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_the_fused_baseline_of_prefill_is_the_plain_one(gpu: str) -> None:
    for code, case, drawn, _ in drawn_hidden("prefill_causal", gpu):
        fused = code.baseline(drawn.data, case)
        plain = SimpleNamespace(**drawn.data, **{name: torch.empty_like(value) for name, value in fused.items()})
        for start in range(0, plain.q.shape[1], 64):
            code._baseline.plain(plain, slice(start, min(plain.q.shape[1], start + 64)))

        torch.testing.assert_close(fused["output"], plain.output, rtol=0.02, atol=0.02)
        torch.testing.assert_close(fused["lse"], plain.lse, rtol=1e-5, atol=1e-4)
