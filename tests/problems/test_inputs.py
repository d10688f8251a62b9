"""What `make_inputs` and the recipes promise."""

import pytest
import torch

from tests.problems.loading import NAMES, case_of, code_of, fresh_seeds, hidden, inputs, problem, public

DECODE = "gqa_paged_decode"
RECIPES = [(name, spec.recipe) for name in NAMES for spec in problem(name).spec.hidden["cpu"] if spec.recipe]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_depend_on_the_case_alone(name: str) -> None:
    code, seeds = code_of(name), fresh_seeds()
    for case in [*public(name), *hidden(name, seeds)]:
        layouts = {code.layout(case, code.draw(case, seeds.generator(str(i))).data) for i in range(8)}

        assert len(layouts) == 1


@pytest.mark.parametrize(("name", "recipe"), RECIPES)
def test_a_recipe_changes_values_and_says_which_rows(name: str, recipe: str) -> None:
    code, seeds = code_of(name), fresh_seeds()
    for case in (c for c in hidden(name, seeds) if c.recipe == recipe):
        drawn = code.draw(case, seeds.generator("x"))

        output = code.reference(drawn.data, None)
        rows = next(iter(output.values())).flatten(0, len(next(iter(code.spec.outputs.values())).rows) - 1)
        assert len(drawn.planted) > 0
        assert 0 <= int(drawn.planted.min()) <= int(drawn.planted.max()) < len(rows)
        assert all(not o.isnan().any() for o in output.values())


def test_table_entries_past_the_end_name_pages_that_nobody_uses() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=4, page=16, lengths={"uniform": [0, 100]}, shared=2))
    page, pages = 16, data["kv_pool"].shape[0]
    used = {int(n) for row, length in zip(data["block_table"], data["seq_lens"], strict=True) for n in row[: -(-int(length) // page)]}
    behind = {int(n) for row, length in zip(data["block_table"], data["seq_lens"], strict=True) for n in row[-(-int(length) // page):]}

    assert not used & behind
    assert all(0 <= n < pages for n in used | behind)
    assert all(data["kv_pool"][n].isnan().all() for n in behind)
    assert not any(data["kv_pool"][n].isnan().any() for n in used)


def test_shared_pages_lead_every_sequence_and_the_rest_is_its_own() -> None:
    table = inputs(DECODE, case_of(DECODE, batch=3, page=16, lengths={"fixed": 64}, shared=2))["block_table"]

    assert (table[:, :2] == table[0, :2]).all()
    assert len(table[:, 2:].unique()) == table[:, 2:].numel()


def test_pages_come_in_random_order() -> None:
    table = inputs(DECODE, case_of(DECODE, batch=2, page=16, lengths={"fixed": 160}))["block_table"]

    assert not torch.equal(table.flatten().sort().values, table.flatten())


def test_distinct_kv_counts_a_shared_token_once() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=3, page=16, lengths={"fixed": 40}, shared=1))

    assert data["distinct_kv"] == 3 * 40 - 2 * 16


def test_nan_in_unused_fills_exactly_the_places_without_a_token() -> None:
    data = inputs(DECODE, case_of(DECODE, batch=1, page=16, lengths={"fixed": 20}, recipe="nan_in_unused"))

    kept = data["kv_pool"].isnan().logical_not().sum()

    assert int(kept) == 20 * 2 * 8 * 128


def test_a_softmax_row_is_never_masked_as_a_whole() -> None:
    data = inputs("row_softmax", case_of("row_softmax", rows=200, cols=2, masked=0.95))

    assert data["x"].isfinite().any(1).all()
