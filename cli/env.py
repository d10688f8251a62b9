"""`derby env`."""

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line


def env(as_json: AsJson = False) -> None:
    """List the device classes and what a kernel finds there: versions of Python, torch and Triton."""
    data = Server(Settings.from_env()).get("devices", "devices")
    if as_json:
        print_json(data)
        return
    for device in data["devices"]:
        print(f"{device['name']}: {one_line(device['title'], 80)}")
        if not device.get("environment"):
            print("  nothing known: no runner of this server has judged on it yet")
        for key, value in (device.get("environment") or {}).items():
            print(f"  {one_line(key, 40)}: {one_line(value, 120)}")
