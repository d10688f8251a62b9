"""What is known of a runner beside its class: its measured ceilings, its certificate."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernelderby.core.light import Ceilings


@dataclass(frozen=True, kw_only=True)
class RunnerFacts:
    """One runner, as the judge is told of it."""

    gpu: str | None = None               # the GPU's UUID
    measured: Ceilings | None = None     # by `derby calibrate`
    certificate: str | None = None       # the id of a certificate that holds now
    failed_check: str | None = None      # why none holds: the check of `derby runner accept` that failed, or what has changed since
    bound_share: float = 0.0             # the certificate's forgery bound: so large a share of a time,
    bound_us: float = 0.0                # and so many µs

    @property
    def standing(self) -> str:
        """The certificate in one word or two: its id, `failed: <check>`, or `none`."""
        return self.certificate or (f"failed: {self.failed_check}" if self.failed_check else "none")

    def as_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunnerFacts":
        """The runner that `as_json` told of. Raises TypeError for keys of something else."""
        measured = data.get("measured")
        return cls(**{**data, "measured": Ceilings(**measured) if measured else None})


UNKNOWN_RUNNER = RunnerFacts()
