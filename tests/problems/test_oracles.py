"""The float64 references, held to straightforward dense formulas that share no line with them."""

import itertools
import math
import sys
from typing import Any

import pytest
import torch

from tests.problems.loading import NAMES, case_of, code_of, fresh_seeds, hidden, inputs, public

DECODE = "gqa_paged_decode"
PREFILL = "prefill_causal"


def dense_decode(data: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of every sequence and head, token by token, in plain Python and float64."""
    batch, q_heads, head_dim = data["q"].shape
    group, page = q_heads // data["kv_pool"].shape[2], data["kv_pool"].shape[3]
    output = torch.zeros(batch, q_heads, head_dim, dtype=torch.float64)
    lse = torch.full((batch, q_heads), -math.inf, dtype=torch.float64)
    for b in range(batch):
        places = [(int(data["block_table"][b, t // page]), t % page) for t in range(int(data["seq_lens"][b]))]
        for h in range(q_heads):
            total = 0.0
            for number, slot in places:
                key, value = data["kv_pool"][number, :, h // group, slot].double()
                weight = math.exp(float(data["q"][b, h].double() @ key) * data["sm_scale"])
                total += weight
                output[b, h] += weight * value
            if places:
                output[b, h] /= total
                lse[b, h] = math.log2(total)
    return output, lse


@pytest.mark.parametrize(("page", "lengths", "shared"), [
    (16, [0], 0), (16, [1], 0), (16, [15], 0), (16, [16], 0), (16, [17], 0), (4, [9, 10, 11], 2), (32, [40, 0, 1], 1), (1, [7, 3], 3)])
def test_paged_decode_is_dense_attention_over_the_tokens_the_table_names(page: int, lengths: list[int], shared: int) -> None:
    data = inputs(DECODE, case_of(DECODE, batch=len(lengths), page=page, lengths={"choice": [max(lengths)]}, shared=shared))
    data["seq_lens"] = torch.tensor(lengths, dtype=torch.int32)

    found = code_of(DECODE).reference(data, None)

    output, lse = dense_decode(data)
    torch.testing.assert_close(found["output"], output, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found["lse"], lse, rtol=1e-10, atol=1e-12)


def dense_prefill(data: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of every query and head, token by token, in plain Python and float64."""
    batch, q_len, q_heads, head_dim = data["q"].shape
    _, kv_len, kv_heads, _ = data["k"].shape
    output = torch.zeros(batch, q_len, q_heads, head_dim, dtype=torch.float64)
    lse = torch.full((batch, q_len, q_heads), -math.inf, dtype=torch.float64)
    for b, i, h in itertools.product(range(batch), range(q_len), range(q_heads)):
        total = 0.0
        for t in range(max(0, i + 1 + kv_len - q_len)):
            key, value = (data[name][b, t, h // (q_heads // kv_heads)].double() for name in "kv")
            weight = math.exp(float(data["q"][b, i, h].double() @ key) * data["sm_scale"])
            total += weight
            output[b, i, h] += weight * value
        if total:
            output[b, i, h] /= total
            lse[b, i, h] = math.log2(total)
    return output, lse


@pytest.mark.parametrize(("batch", "q_len", "kv_len", "q_heads", "kv_heads"), [
    (1, 1, 1, 1, 1), (2, 5, 5, 4, 2), (1, 1, 9, 6, 2), (2, 3, 8, 5, 1), (1, 6, 2, 2, 2), (1, 2, 17, 3, 3)])
def test_causal_prefill_is_dense_attention_with_the_last_query_at_the_last_key(batch: int, q_len: int, kv_len: int, q_heads: int,
                                                                               kv_heads: int) -> None:
    data = inputs(PREFILL, case_of(PREFILL, batch=batch, q_len=q_len, kv_len=kv_len, q_heads=q_heads, kv_heads=kv_heads))

    found = code_of(PREFILL).reference(data, None)

    output, lse = dense_prefill(data)
    torch.testing.assert_close(found["output"], output, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found["lse"], lse, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [DECODE, PREFILL])
def test_rows_in_many_chunks_are_the_rows_in_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = inputs(name, public(name)[1])
    whole = code_of(name).reference(data, None)

    monkeypatch.setattr(sys.modules["oracle"], "WORKING_BYTES", 1)
    found = code_of(name).reference(data, None)

    for output, expected in whole.items():
        torch.testing.assert_close(found[output], expected, rtol=1e-12, atol=1e-12)


def test_what_unused_places_hold_does_not_reach_the_answer() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=2, page=16, lengths={"uniform": [0, 40]}))
    planted = inputs(DECODE, case_of(DECODE, batch=2, page=16, lengths={"uniform": [0, 40]}, recipe="nan_in_unused"))

    found, expected = (code_of(DECODE).reference(d, None) for d in (planted, data))

    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_an_empty_sequence_has_output_0_and_lse_minus_infinity() -> None:
    data = inputs(DECODE, case_of(DECODE, lengths={"fixed": 0}))

    found = code_of(DECODE).reference(data, None)

    assert (found["output"] == 0).all()
    assert (found["lse"] == -math.inf).all()


def test_one_token_takes_all_weight_and_its_logit_is_the_lse_in_base_2() -> None:
    data = inputs(DECODE, case_of(DECODE, lengths={"fixed": 1}))

    found = code_of(DECODE).reference(data, None)

    number = int(data["block_table"][0, 0])
    key, value = data["kv_pool"][number, :, 3, 0].double()
    assert torch.equal(found["output"][0, 12], value)
    assert float(found["lse"][0, 12]) == pytest.approx(float(data["q"][0, 12].double() @ key) * data["sm_scale"] / math.log(2), abs=1e-12)


def test_doubling_every_token_raises_the_lse_by_one() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=1, page=16, lengths={"fixed": 32}))
    once = data | {"seq_lens": torch.tensor([16], dtype=torch.int32)}
    twice = data | {"block_table": data["block_table"][:, :1].repeat(1, 2)}

    found = [code_of(DECODE).reference(d, None) for d in (once, twice)]

    torch.testing.assert_close(found[1]["lse"], found[0]["lse"] + 1)
    torch.testing.assert_close(found[1]["output"], found[0]["output"])


def test_softmax_is_torchs_in_float64() -> None:
    data = inputs("row_softmax", case_of("row_softmax", rows=9, cols=33, masked=0.4))

    found = code_of("row_softmax").reference(data, None)["y"]

    torch.testing.assert_close(found, torch.softmax(data["x"].double(), 1), rtol=1e-12, atol=0)
    assert (found[data["x"] == -math.inf] == 0).all()


def test_the_sum_of_two_vectors_is_exact() -> None:
    data = inputs("vector_add", case_of("vector_add", n=100, dtype="float16"))

    found = code_of("vector_add").reference(data, None)["c"]

    assert found.tolist() == [a + b for a, b in zip(data["a"].tolist(), data["b"].tolist(), strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_rows_asked_for_are_the_rows_of_the_whole(name: str) -> None:
    code, seeds = code_of(name), fresh_seeds()
    for case in [*public(name), *hidden(name, seeds)]:
        data = code.draw(case, seeds.generator(case.name)).data
        whole = code.reference(data, None)
        for output, spec in code.spec.outputs.items():
            flat = whole[output].flatten(0, len(spec.rows) - 1)
            rows = torch.randint(len(flat), (20,), generator=seeds.generator("rows"))

            part = code.reference(data, rows)[output]

            torch.testing.assert_close(part, flat[rows], rtol=1e-12, atol=1e-12)


def test_rows_of_long_sequences_cost_what_they_are_not_what_the_batch_is() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=2, page=64, lengths={"choice": [16, 8192]}, dtype="float16"))
    data["seq_lens"] = torch.tensor([16, 8192], dtype=torch.int32)

    found = code_of(DECODE).reference(data, torch.tensor([0, 1, 31]))

    assert found["output"].shape == (3, 128)
    assert found["lse"].shape == (3,)
