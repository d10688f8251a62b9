"""Programs for gate `serves`: the starter of paged decode, called in other ways, and what the judge must say of each.

All give right results in plain calls. `plain` is the starter's own custom_kernel.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Gate, Outcome

FOLDER = "problems/attention/gqa_paged_decode"
CASE = {"name": "mixed", "axes": {"batch": 16, "page": 16}, "lengths": {"uniform": [1, 2048]}, "shared": 4}


@dataclass(frozen=True)
class Program:
    """A way to call the starter."""

    code: str
    outcome: Outcome = Outcome.ACCEPTED
    says: str = ""                 # words of the message

    @property
    def gate(self) -> Gate | None:
        """Where it must fail."""
        return None if self.outcome is Outcome.ACCEPTED else Gate.SERVES

    @property
    def source(self) -> str:
        """The whole file."""
        return f"{(ROOT / FOLDER / 'starter.py').read_text()}\n\nimport torch\n\nplain = custom_kernel\n\n{self.code}"


PROGRAMS = {
    "as it is": Program(""),
    "torch's allocator": Program("""
def custom_kernel(data):
    scratch = torch.empty_like(data.output)
    plain(data._replace(output=scratch))
    data.output.copy_(scratch)
"""),
    "an own stream, joined": Program("""
side = torch.cuda.Stream()

def custom_kernel(data):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        plain(data)
    torch.cuda.current_stream().wait_stream(side)
"""),
    "waits on the host": Program("""
def custom_kernel(data):
    if int(data.seq_lens.max().item()) >= 0:
        plain(data)
""", Outcome.REFUSED, "waited for the GPU on the host"),
    "waits unless captured": Program("""
def custom_kernel(data):
    if not torch.cuda.is_current_stream_capturing():
        data.seq_lens.max().item()
    plain(data)
"""),      # its time holds the wait, and an engine has none
    "more work when captured": Program("""
def custom_kernel(data):
    for _ in range(4 if torch.cuda.is_current_stream_capturing() else 1):
        plain(data)
""", Outcome.REFUSED, "a replay of its CUDA graph takes"),
    "stream 0": Program("""
def custom_kernel(data):
    with torch.cuda.stream(torch.cuda.default_stream()):
        plain(data)
""", Outcome.REFUSED, "stream 0"),
    "cuMemAlloc": Program("""
import ctypes
cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()

def custom_kernel(data):
    plain(data)
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
""", Outcome.REFUSED, "cudaMalloc"),
    "lengths read before the capture": Program("""
lengths = []

def custom_kernel(data):
    if not torch.cuda.is_current_stream_capturing():
        lengths[:] = data.seq_lens.tolist()
    for i, length in enumerate(lengths):
        one = slice(i, i + 1)
        plain(data._replace(q=data.q[one], block_table=data.block_table[one], output=data.output[one], lse=data.lse[one],
                            seq_lens=torch.full((1,), length, dtype=torch.int32, device="cuda")))
""", Outcome.NONFINITE, "size the grid by shapes alone"),
    "a copied table": Program("""
kept = {}

def custom_kernel(data):
    if not torch.cuda.is_current_stream_capturing():
        kept["table"] = data.block_table.clone()
    plain(data._replace(block_table=kept["table"]))
""", Outcome.NONFINITE, "keep no copy"),
    "a large workspace": Program("""
held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
""", Outcome.REFUSED, "of device memory beside inputs and outputs"),
}


def small_decode(root: Path) -> Problem:
    """Paged decode below `root`, with one public case for a GPU, of about 100 µs on Hopper, and none hidden."""
    folder = root / FOLDER
    shutil.copytree(ROOT / "problems/attention", folder.parent)
    shutil.copytree(ROOT / "reference_kernels/gqa_paged_decode", root / "reference_kernels/gqa_paged_decode")
    spec = yaml.safe_load((folder / "problem.yml").read_text())
    spec["cases"]["gpu"] = [CASE]
    spec["hidden"].pop("gpu")
    (folder / "problem.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return load_problem(folder)
