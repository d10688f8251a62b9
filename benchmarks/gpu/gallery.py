"""The timing attacks: where each is at its best, and where it wins, since an attack that wins nowhere proves nothing."""

from dataclasses import dataclass

from kernelderby.core.settings import ROOT

PLAIN = "plain"                    # wins on an in-process timer as peers have it
HONEST = "import torch\n\ndef custom_kernel(data):\n    torch.add(data.a, data.b, out=data.c)\n"

FOLDERS = (ROOT / "tests/judge/gpu/attacks", ROOT / "judge/acceptance/gallery")
_SWITCH = "ATTACK = True"
_M64, _M10, _K256 = 67_108_864, 10_485_760, 262_144


@dataclass(frozen=True)
class Attack:
    """One file of the gallery."""

    name: str
    n: int                            # elements of the vector addition it is judged on
    wins_without: str                 # PLAIN, or the defence of ours without which it wins
    proof_n: int | None = None        # where it wins, when not on n: below what the speed of light refuses whoever played it
    against_baseline: bool = False    # it makes the baseline slower, not itself faster

    @property
    def source(self) -> str:
        """The file."""
        return next(path for path in (folder / f"{self.name}.py" for folder in FOLDERS) if path.exists()).read_text()

    @property
    def honest(self) -> str:
        """The same work without the attack: the file with its switch off, or a plain addition."""
        return self.source.replace(_SWITCH, "ATTACK = False", 1) if _SWITCH in self.source else HONEST


GALLERY = [
    Attack("side_stream", _M64, PLAIN),
    Attack("thread_after_return", _M64, PLAIN),
    Attack("claim_shade", _M64, PLAIN),
    Attack("synchronize_hook", _M64, PLAIN),
    Attack("reuse", _M64, PLAIN),
    Attack("input_memo", _M64, PLAIN),
    Attack("stale_graph", _M64, PLAIN),
    Attack("lazy_tensor", _M64, PLAIN),
    Attack("l2_persist", _K256, PLAIN),
    Attack("neighbour_load", _M64, PLAIN, against_baseline=True),
    Attack("early_done", _M64, "looks", proof_n=_M10),
    Attack("unpoison_first", _M64, "looks", proof_n=_M10),
    Attack("early_done_copy", _K256, "looks"),
    Attack("early_done_kernel", _K256, "looks"),
    Attack("early_done_host", _K256, "looks"),
    Attack("early_scan", _K256, "late_binding"),
    Attack("parked", _K256, "one_graph"),
    Attack("poller", _K256, "one_graph"),
    Attack("null_inflate", _M64, "twin", proof_n=_M10),
]
