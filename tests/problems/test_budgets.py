"""Budgets let honest arithmetic pass on any seed, and catch answers that save precision or work."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelderby.judge.referee.checking import CaseCheck
from tests.problems.loading import NAMES, case_of, code_of, fresh_seeds, hidden, public

SEEDS = 5
Answer = Callable[[torch.Tensor], torch.Tensor]
CHEATS: dict[str, Answer] = {
    "eight bits": lambda exact: exact.to(torch.float8_e4m3fn).to(exact.dtype),
    "one per cent too large": lambda exact: exact * 1.01,
    "one element off": lambda exact: torch.where(torch.arange(exact.numel()).view(exact.shape) == exact.numel() // 2, exact + 1, exact),
    "an all-zero last row": lambda exact: torch.cat([exact[:-1], torch.zeros_like(exact[-1:])]),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_answer_rounded_once_passes_everywhere(name: str) -> None:
    code = code_of(name)
    for seeds in (fresh_seeds() for _ in range(SEEDS)):
        for case in [*public(name), *hidden(name, seeds)]:
            drawn = code.draw(case, seeds.generator(case.name))
            exact = {n: v.to(code.baseline(drawn.data, case)[n].dtype) for n, v in code.reference(drawn.data, None).items()}

            assert CaseCheck(code, case, seeds).check("x", drawn, exact) is None, case


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("name", NAMES)
def test_a_cheap_answer_fails_on_every_public_case(name: str, cheat: str) -> None:
    code, seeds = code_of(name), fresh_seeds()
    output = next(iter(code.spec.outputs))
    for case in public(name):
        passed = []
        for i in range(3):      # one draw may happen to be kind: all its sequences empty, say
            drawn = code.draw(case, seeds.generator(f"{case.name}/{i}"))
            answer = code.baseline(drawn.data, case)
            answer[output] = CHEATS[cheat](answer[output])
            passed.append(CaseCheck(code, case, seeds).check("x", drawn, answer) is None)

        assert not all(passed), case


def flash(data: dict[str, Any], weights_dtype: torch.dtype, block: int) -> dict[str, torch.Tensor]:
    """Paged decode as fused kernels do it: online softmax in base 2 over blocks, weights rounded for the second product."""
    batch, q_heads, head_dim = data["q"].shape
    kv_heads = data["kv_pool"].shape[2]
    output, lse = torch.zeros_like(data["q"]), torch.full((batch, q_heads), -math.inf)
    for b, length in enumerate(data["seq_lens"].tolist()):
        keys, values = data["kv_pool"][data["block_table"][b].long()].permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length].float()
        queries = data["q"][b].float().view(kv_heads, -1, head_dim)
        top, total = torch.full((kv_heads, queries.shape[1], 1), -math.inf), torch.zeros(kv_heads, queries.shape[1], 1)
        mixed = torch.zeros_like(queries)
        for start in range(0, length, block):
            logits = queries @ keys[:, start : start + block].transpose(1, 2) * (data["sm_scale"] / math.log(2))
            new_top = torch.maximum(top, logits.amax(2, keepdim=True))
            weights, rescale = torch.exp2(logits - new_top), torch.exp2(top - new_top)
            total = total * rescale + weights.sum(2, keepdim=True)
            mixed = mixed * rescale + weights.to(weights_dtype).float() @ values[:, start : start + block]
            top = new_top
        if length:
            output[b] = (mixed / total).view(q_heads, head_dim).to(output.dtype)
            lse[b] = (top + total.log2()).view(q_heads)
    return {"output": output, "lse": lse}


@pytest.mark.parametrize("block", [16, 128])
def test_flash_decoding_in_the_cases_dtype_passes_everywhere(block: int) -> None:
    code = code_of("gqa_paged_decode")
    for seeds in (fresh_seeds() for _ in range(SEEDS)):
        for case in [*public("gqa_paged_decode"), *hidden("gqa_paged_decode", seeds)]:
            drawn = code.draw(case, seeds.generator(case.name))
            answer = flash(drawn.data, drawn.data["q"].dtype, block)

            assert CaseCheck(code, case, seeds).check("x", drawn, answer) is None, case


def test_flash_decoding_passes_in_bfloat16_over_long_sequences() -> None:
    """The GPU cases in small: bfloat16 throughout, a thousand tokens and more."""
    code = code_of("gqa_paged_decode")
    for recipe in (None, "needle", "sink", "outlier", "near_equal", "large_logits", "nan_in_unused"):
        case = case_of("gqa_paged_decode", batch=2, page=64, lengths={"uniform": [1000, 4096]}, dtype="bfloat16", recipe=recipe)
        seeds = fresh_seeds()
        drawn = code.draw(case, seeds.generator("x"))

        assert CaseCheck(code, case, seeds).check("x", drawn, flash(drawn.data, torch.bfloat16, 64)) is None, recipe


def flash_prefill(data: dict[str, Any], weights_dtype: torch.dtype, block: int) -> dict[str, torch.Tensor]:
    """Causal prefill as fused kernels do it."""
    (batch, q_len, q_heads, _), (_, kv_len, kv_heads, _) = data["q"].shape, data["k"].shape
    queries = data["q"].float().transpose(1, 2).unflatten(1, (kv_heads, -1))
    keys, values = (data[name].float().transpose(1, 2)[:, :, None] for name in "kv")
    last = torch.arange(q_len)[:, None] + kv_len - q_len
    top = torch.full((batch, kv_heads, q_heads // kv_heads, q_len, 1), -1e30)
    total, mixed = torch.zeros_like(top), torch.zeros_like(queries)
    for start in range(0, kv_len, block):
        logits = queries @ keys[..., start : start + block, :].mT * (data["sm_scale"] / math.log(2))
        logits.masked_fill_(torch.arange(start, min(kv_len, start + block)) > last, -math.inf)
        new_top = torch.maximum(top, logits.amax(4, keepdim=True))
        weights, rescale = torch.exp2(logits - new_top), torch.exp2(top - new_top)
        total = total * rescale + weights.sum(4, keepdim=True)
        mixed = mixed * rescale + weights.to(weights_dtype).float() @ values[..., start : start + block, :]
        top = new_top
    output = (mixed / total.clamp(min=1e-30)).to(data["q"].dtype)
    return {"output": output.flatten(1, 2).transpose(1, 2), "lse": (top + total.log2()).flatten(1, 2).squeeze(3).transpose(1, 2)}


@pytest.mark.parametrize("block", [16, 128])
def test_flash_prefill_in_the_cases_dtype_passes_everywhere(block: int) -> None:
    code = code_of("prefill_causal")
    for seeds in (fresh_seeds() for _ in range(SEEDS)):
        for case in [*public("prefill_causal"), *hidden("prefill_causal", seeds)]:
            drawn = code.draw(case, seeds.generator(case.name))
            answer = flash_prefill(drawn.data, drawn.data["q"].dtype, block)

            assert CaseCheck(code, case, seeds).check("x", drawn, answer) is None, case


@pytest.mark.parametrize("recipe", [None, *code_of("prefill_causal").planted])
def test_flash_prefill_passes_in_bfloat16_at_the_end_of_a_long_context(recipe: str | None) -> None:
    code, seeds = code_of("prefill_causal"), fresh_seeds()
    case = case_of("prefill_causal", batch=1, q_len=300, kv_len=3001, q_heads=4, kv_heads=1, dtype="bfloat16", recipe=recipe)
    drawn = code.draw(case, seeds.generator("x"))

    assert CaseCheck(code, case, seeds).check("x", drawn, flash_prefill(drawn.data, torch.bfloat16, 64)) is None


def test_half_the_keys_in_eight_bits_fail() -> None:
    code, seeds = code_of("gqa_paged_decode"), fresh_seeds()
    case = public("gqa_paged_decode")[0]
    drawn = code.draw(case, seeds.generator("x"))
    squeezed = drawn.data | {"kv_pool": drawn.data["kv_pool"].clone()}
    squeezed["kv_pool"][:, :, ::2] = squeezed["kv_pool"][:, :, ::2].to(torch.float8_e4m3fn).to(torch.float16)

    failure = CaseCheck(code, case, seeds).check("x", drawn, flash(squeezed, torch.float16, 64))

    assert failure is not None
