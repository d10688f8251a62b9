"""/devices."""

from fastapi import APIRouter

from kernelderby.core.devices import DEVICES
from kernelderby.leaderboard_web.api.wire import DeviceList, DeviceOut

router = APIRouter(tags=["boards"])


@router.get("/devices")
def listing() -> DeviceList:
    """The device classes that a board can be held on."""
    return DeviceList(devices=[DeviceOut(name=d.name, title=d.title, kind=d.kind, arch=d.arch) for d in DEVICES.values()])
