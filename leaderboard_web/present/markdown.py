"""Statements: Markdown with formulas to HTML that is safe under our policy."""

import re
from html import escape
from typing import Any

import nh3
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

_TAGS = {"p", "br", "em", "strong", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "a", "h2", "h3", "h4", "h5", "h6",
         "table", "thead", "tbody", "tr", "th", "td", "sup", "sub", "span",
         "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder", "mover",
         "munderover", "mtable", "mtr", "mtd"}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"class"}, "math": {"display"}, "mspace": {"width"},
               "mi": {"mathvariant"}, "mo": {"stretchy", "fence", "form"}, "mover": {"accent"}}
_FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\s](?:[^$]*[^$\s])?)\$(?!\d)", re.DOTALL)
_SPACED = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")      # in 16 384: no line may break there


def to_html(markdown: str) -> tuple[Markup, Markup]:
    """`markdown` as HTML: up to its first heading, and from there on. A title at its start is left out, since the page has one.

    Raw HTML is shown, not run. Formulas in TeX become MathML; one that cannot be read stays as it is written.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.add_render_rule("formula", _drawn)
    tokens = parser.parse(markdown)
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        tokens = tokens[3:]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
        for word in token.children or []:
            if word.type == "text":
                word.content = _SPACED.sub("\N{NO-BREAK SPACE}", word.content)
    html = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"http", "https", "mailto"}, link_rel="noopener noreferrer")
    intro, heading, details = _reachable(clean).partition("<h3>")
    return Markup(intro), Markup(heading + details)


def _reachable(html: str) -> str:
    """What may be wider than the page scrolls in a box of its own that the keyboard reaches."""
    return (html.replace("<pre>", '<pre tabindex="0">')
            .replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>"))


def _formula(state: StateInline, silent: bool) -> bool:
    found = _FORMULA.match(state.src, state.pos) if state.src.startswith("$", state.pos) else None
    if found is None or found.end() > state.posMax:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = (found["block"] or found["inline"]).strip()
        token.meta = {"block": found["block"] is not None}
    state.pos = found.end()
    return True


def _drawn(_renderer: Any, tokens: Any, index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    try:
        if not token.meta["block"]:
            return convert(token.content)
        parts = [convert(part, display="block") for part in token.content.split("\\qquad")]   # narrow pages put them below each other
    except Exception:      # the library's errors have no type in common, and a statement is shown whatever it holds
        return f"<code>{escape(token.content)}</code>"
    return f'<span class="formula">{"".join(parts)}</span>'
