"""The device classes a board can be held on."""

from dataclasses import dataclass

from kernelderby.core.errors import NotFound


@dataclass(frozen=True, kw_only=True)
class DeviceClass:
    """A kind of runner. Two runners of one class rank on one board."""

    name: str                  # as in every command and on every board
    title: str
    arch: str | None           # the CUDA target that runs there; None: no GPU

    @property
    def kind(self) -> str:
        """`cpu` or `gpu`: the key of a problem's cases."""
        return "gpu" if self.arch else "cpu"


CPU = DeviceClass(name="cpu", title="CPU (Triton interpreter)", arch=None)
DEVICES: dict[str, DeviceClass] = {
    d.name: d
    for d in (
        CPU,
        DeviceClass(name="h100", title="NVIDIA H100", arch="sm_90a"),
        DeviceClass(name="h200", title="NVIDIA H200", arch="sm_90a"),
        DeviceClass(name="b200", title="NVIDIA B200", arch="sm_100a"),
    )
}
COMPILE_TARGETS = ("sm_90a", "sm_100a")   # what a Triton entry is compiled for on the CPU class


def device(name: str) -> DeviceClass:
    """The class by that name, in any case. Raises NotFound."""
    found = DEVICES.get(name.strip().lower())
    if found is None:
        raise NotFound(f"There is no device class {name[:40]!r}. Known: {', '.join(DEVICES)}.")
    return found


def class_of_gpu(name: str) -> DeviceClass | None:
    """The class of a GPU that the driver calls so, such as `NVIDIA H100 80GB HBM3`. A GH200 is no H200: words must fit whole."""
    words = name.lower().split()
    return next((d for d in DEVICES.values() if d.arch and d.name in words), None)
