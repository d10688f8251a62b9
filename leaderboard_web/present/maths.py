"""The TeX that statements use, as MathML that browsers draw by themselves."""

import re
from collections.abc import Callable
from html import escape

_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|[{}^_&]|\d+(?:[ ,]\d{3})*(?:\.\d+)?|\S")
_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "ϕ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Sigma": "Σ", "Phi": "Φ", "Omega": "Ω", "ell": "ℓ",
    "infty": "∞",
}
_OPERATORS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "equiv": "≡", "in": "∈", "cdot": "·", "times": "×",
    "div": "÷", "pm": "±", "to": "→", "mapsto": "↦", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "lVert": "‖", "rVert": "‖",
    "Vert": "‖", "mid": "|", "ldots": "…", "dots": "…", "cdots": "⋯", "top": "⊤", "odot": "⊙", "oplus": "⊕", "sum": "∑", "prod": "∏",
    "max": "max", "min": "min", "bmod": "mod", "mod": "mod", "partial": "∂", "forall": "∀", "langle": "⟨", "rangle": "⟩",
    "ll": "≪", "gg": "≫",
    "{": "{", "}": "}", "|": "‖", "%": "%", "_": "_", "&": "&", "#": "#", "$": "$",
}
_LIMITS = frozenset({"sum", "prod", "max", "min"})      # what carries its bounds below and above
_NAMES = frozenset({"log", "exp", "ln", "sin", "cos", "tanh", "softmax"})
_FONTS = {"text": "mtext", "mathrm": "mi", "texttt": "mtext", "operatorname": "mi", "mathbf": "mi", "mathit": "mi", "mbox": "mtext"}
_SPACES = {"quad": "1em", "qquad": "2em", ",": ".17em", ";": ".28em", ":": ".22em", " ": ".25em", "!": "0"}
_SILENT = frozenset({"left", "right", "big", "Big", "bigl", "bigr", "displaystyle", "limits"})


class NotRead(ValueError):
    """TeX beyond what is read here."""


def to_mathml(tex: str, *, block: bool) -> str:
    """`tex` as MathML. Raises NotRead for commands that are not known here."""
    reader = _Reader(tex)
    inner = "".join(reader.row(end=None))
    return f'<math display="{"block" if block else "inline"}"><mrow>{inner}</mrow></math>'


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, tex: str) -> None:
        self._tex = tex
        self._at = 0
        self._commands: dict[str, Callable[[], str]] = {
            "frac": lambda: f"<mfrac>{self._atom()}{self._atom()}</mfrac>", "tfrac": lambda: f"<mfrac>{self._atom()}{self._atom()}</mfrac>",
            "sqrt": lambda: f"<msqrt>{self._atom()}</msqrt>", "hat": lambda: f"<mover>{self._atom()}<mo>^</mo></mover>",
            "bar": lambda: f"<mover>{self._atom()}<mo>¯</mo></mover>",
        }

    def row(self, end: str | None) -> list[str]:
        """Elements until the token `end`, which is taken."""
        found: list[str] = []
        while (token := self._next()) is not None:
            if token == end:
                return found
            found.append(self._with_scripts(token, self._element(token)))
        if end is not None:
            raise NotRead(f"{end} is missing")
        return found

    def _with_scripts(self, token: str, base: str) -> str:
        scripts: dict[str, str] = {}
        while (mark := self._peek()) in ("_", "^"):
            self._next()
            scripts[str(mark)] = self._atom()
        below, above = scripts.get("_", ""), scripts.get("^", "")
        if not scripts:
            return base
        stacked = token[1:] in _LIMITS
        if below and above:
            kind = "munderover" if stacked else "msubsup"
        elif below:
            kind = "munder" if stacked else "msub"
        else:
            kind = "mover" if stacked else "msup"
        return f"<{kind}>{base}{below}{above}</{kind}>"

    def _atom(self) -> str:
        token = self._next()
        if token is None:
            raise NotRead("it ends too early")
        return self._element(token)

    def _element(self, token: str) -> str:
        if token == "{":
            return f"<mrow>{''.join(self.row('}'))}</mrow>"
        if token.startswith("\\"):
            return self._command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "}^_&":
            raise NotRead(f"{token} stands alone")
        return f"<mo>{escape({'-': '−', '*': '∗'}.get(token, token))}</mo>"

    def _command(self, name: str) -> str:
        if name in self._commands:
            return self._commands[name]()
        if name in _FONTS:
            return f"<{_FONTS[name]}>{escape(self._braced())}</{_FONTS[name]}>"
        for known, tag in ((_LETTERS, "mi"), (_OPERATORS, "mo")):
            if name in known:
                return f"<{tag}>{escape(known[name])}</{tag}>"
        if name in _NAMES:
            return f"<mi>{name}</mi>"
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"></mspace>'
        if name in _SILENT:
            return ""
        raise NotRead(f"\\{name} is not known")

    def _braced(self) -> str:
        """The raw text of a group, for fonts."""
        found = re.compile(r"\s*\{([^{}]*)\}").match(self._tex, self._at)
        if found is None:
            raise NotRead("a group is missing")
        self._at = found.end()
        return found[1].replace("\\_", "_").replace("\\ ", " ")

    def _peek(self) -> str | None:
        found = _TOKEN.search(self._tex, self._at)
        return found[0] if found else None

    def _next(self) -> str | None:
        found = _TOKEN.search(self._tex, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]
