"""A problem's folder as the doors show it: read from its archive, without unpacking or running anything."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import yaml
from markupsafe import Markup

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem import ProblemFile, public_cases
from kernelderby.core.verdict import Gate
from kernelderby.leaderboard_web.present.markdown import to_html
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.problems import ProblemInfo

_SHOWN_BYTES = 256 * 1024   # of one file


@dataclass(frozen=True, kw_only=True)
class Folder:
    """What everybody may read of a problem."""

    spec: ProblemFile               # without its hidden families
    statement: str                  # Markdown
    intro: Markup                   # the statement up to its first heading
    details: Markup                 # and the rest of it
    starters: dict[str, str]        # starter.py first
    hidden_gates: Mapping[str, frozenset[Gate]]   # by device class or kind: the gates of its hidden families

    def has_hidden(self, device: DeviceClass) -> bool:
        """Whether a ranked entry on that device class also meets hidden cases."""
        return bool(self._hidden(device))

    def gates(self, device: DeviceClass) -> frozenset[Gate]:
        """The gates that a ranked entry meets on that device class."""
        public = {Gate(case.gate) for case in public_cases(self.spec, device)}
        gpu = {Gate.DOES_WORK, *([Gate.SERVES] if self.spec.serves else [])} if device.kind == "gpu" else set[Gate]()
        return frozenset({Gate.RIGHT, Gate.HONEST_TIME} | public | gpu) | self._hidden(device)

    def _hidden(self, device: DeviceClass) -> frozenset[Gate]:
        return self.hidden_gates.get(device.name) or self.hidden_gates.get(device.kind, frozenset())


def read_folder(artifacts: ArtifactStore, info: ProblemInfo) -> Folder:
    """The public parts of a problem's current version. Raises NotFound where its archive is gone."""
    return _read(artifacts, info.archive)


@lru_cache(maxsize=32)   # archives never change; their key is their hash
def _read(artifacts: ArtifactStore, key: str) -> Folder:
    files = _shown_files(artifacts.get(key))
    spec = ProblemFile.model_validate(yaml.safe_load(files["problem.yml"]))
    statement = files.get("statement.md", "")
    intro, details = to_html(statement)
    return Folder(
        spec=spec.model_copy(update={"hidden": {}}), statement=statement, intro=intro, details=details,
        starters={name: text for name, text in files.items() if name.startswith("starter")},
        hidden_gates={kind: frozenset(Gate(f.failed_gate) for f in families)
                      for kind, families in spec.hidden.items()})


def _shown_files(archive: bytes) -> dict[str, str]:
    """Top-level files of the problem's folder by name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if member.isfile() and member.size <= _SHOWN_BYTES and path.parts[0] == "problems" and len(path.parts) == 4:
                content = tar.extractfile(member)
                assert content is not None
                found[path.name] = content.read().decode("utf-8", "replace")
    return dict(sorted(found.items()))
