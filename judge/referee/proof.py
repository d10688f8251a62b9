"""A known case: what a fresh referee must get right before it judges, when the one before it failed."""

import secrets

from kernelderby.core.errors import DerbyError
from kernelderby.core.problem import Case
from kernelderby.judge.referee.checking import CaseCheck
from kernelderby.judge.referee.inputs import ProblemCode, Seeds


def prove(code: ProblemCode, case: Case) -> None:
    """Hold one call of the baseline to the oracle. Raises DerbyError when it does not pass."""
    seeds = Seeds(secrets.token_bytes(32), code.kind.torch_device)
    drawn = code.draw(case, seeds.generator("proof"))
    if failure := CaseCheck(code, case, seeds).check("proof", drawn, code.baseline(drawn.data, case)):
        raise DerbyError(f"A fresh referee finds the problem's own baseline wrong on case {case.name}: {failure.message} "
                         "Run `derby problem check`; if it passes there, this machine computes wrong.")
