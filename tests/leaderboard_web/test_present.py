"""Numbers, charts and statements, by themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelderby.leaderboard_web.present import charts, numbers
from kernelderby.leaderboard_web.present.markdown import to_html

POSITIVE = st.floats(min_value=1e-3, max_value=1e12)


@pytest.mark.parametrize(("us", "text"), [
    (0.06, "0.1 µs"), (319.6, "319.6 µs"), (1999.0, "1,999.0 µs"), (2_000.0, "2.00 ms"), (3.2e6, "3.20 s")])
def test_a_time_is_told_in_the_unit_that_suits_it(us: float, text: str) -> None:
    assert numbers.time(us).replace(numbers.NBSP, " ") == text


@pytest.mark.parametrize(("rank", "text"), [((4, 5), "4–5"), ((1, 1), "1"), (None, "")])
def test_a_rank_is_an_interval(rank: tuple[int, int] | None, text: str) -> None:
    assert numbers.rank(rank) == text


@pytest.mark.parametrize(("factor", "text"), [(1.384, "1.38×"), (0.5, "0.50×"), (0.00019, "0.00019×"), (1234.5, "1,234.50×"), (None, "")])
def test_a_speedup_keeps_two_figures(factor: float | None, text: str) -> None:
    assert numbers.times(factor) == text


@pytest.mark.parametrize(("value", "text"), [
    (None, ""), (0.0, "0"), (0.0021, "0.0021"), (1.73, "1.7300"), (3.2e-7, "3.20e−07"), (5e4, "5.00e+04")])
def test_an_error_keeps_its_figures(value: float | None, text: str) -> None:
    assert numbers.error(value) == text


@given(st.lists(st.tuples(st.sampled_from(["you", "leader", "baseline"]), POSITIVE), max_size=3), st.lists(POSITIVE, max_size=20))
def test_a_ruler_holds_all_its_times(named: list[tuple[str, float]], field: list[float]) -> None:
    ruler = charts.ruler(named, field)
    if ruler is None:
        assert not named + field
        return
    places = [m.x for m in ruler.marks] + ruler.field + [t.x for t in ruler.ticks]
    assert all(-1e-6 <= x <= 100 + 1e-6 for x in places)
    labels = [t for t in ruler.ticks if t.label]
    assert len(labels) >= 2


@given(st.lists(POSITIVE, min_size=1, max_size=200))
def test_dots_stay_in_their_picture(times: list[float]) -> None:
    scale = charts.scale_of(times)
    dots = charts.dots(times, scale)
    assert len(dots) == len(times)
    assert 0 < scale.low < min(times) <= max(times) < scale.high
    assert all(0 <= x <= 100 and -10 <= y <= 108 for x, y in dots)


@pytest.mark.parametrize(("tex", "drawn"), [
    (r"x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
    (r"\sum_{t < L} s_t", "<mrow><mi>t</mi><mo>&lt;</mo><mi>L</mi></mrow>"),
    (r"\texttt{kv_pool}", "<mtext>kv_pool</mtext>"),
    (r"\text{<img/src=x/onerror=alert(1)>}", "<mtext></mtext>"),
    (r"\href{javascript:alert(1)}{x}", "<mrow><mrow><mi>x</mi></mrow></mrow>"),
    (r"\left( a", r"<code>\left( a</code>"),
])
def test_a_formula_is_drawn_cleaned_or_left_as_written(tex: str, drawn: str) -> None:
    intro, _ = to_html(f"${tex}$")
    assert drawn in intro


@given(st.text(alphabet=st.sampled_from(list(r"\{}^_$&<>ab1 fracsqrt")), max_size=40))
def test_no_formula_breaks_a_statement(tex: str) -> None:
    intro, details = to_html(f"# T\n\n${tex}$ and $${tex}$$\n\n## More\n\n{tex}")
    assert "<script" not in intro + details


def test_a_statement_keeps_its_formulas_out_of_markdown_and_unknown_ones_readable() -> None:
    intro, details = to_html("# Title\n\nIt is $a_b * c_d$, or $\\foo_a$. It costs $5.\n\n## Then\n\n<b>no</b> [x](javascript:alert(1))")
    assert "Title" not in intro
    assert "<em>" not in intro
    assert "\\foo" in intro
    assert "$5" in intro
    assert details.startswith("<h3>Then</h3>")
    assert "&lt;b&gt;" in details
    assert 'href="javascript' not in details


def test_no_line_breaks_inside_a_number_and_code_stays_as_it_is() -> None:
    intro, _ = to_html("In 16 777 216 of 2 048 it takes 3 4096-token steps, with `[16 384]`.")
    assert "16&nbsp;777&nbsp;216 of 2&nbsp;048 it takes 3 4096-token steps, with <code>[16 384]</code>" in intro


@given(st.text(max_size=200))
def test_any_text_is_a_statement(text: str) -> None:
    to_html(text)
