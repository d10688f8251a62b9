"""/devices."""

from datetime import UTC, datetime

from fastapi import APIRouter

from kernelderby.core.devices import DEVICES
from kernelderby.leaderboard_web.api.wire import DeviceList, DeviceOut
from kernelderby.leaderboard_web.door import TheDoor
from kernelderby.storage import runners

router = APIRouter(tags=["boards"])


@router.get("/devices")
def listing(door: TheDoor) -> DeviceList:
    """The device classes that a board can be held on."""
    with door.database.read() as session:
        found = {r.device: r.environment.get("kernels_find") for r in runners.alive(session, datetime.now(UTC))}
    return DeviceList(devices=[DeviceOut(name=d.name, title=d.title, kind=d.kind, arch=d.arch, environment=found.get(d.name))
                               for d in DEVICES.values()])
