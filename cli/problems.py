"""`derby problems`."""

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, table
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line


def problems(as_json: AsJson = False) -> None:
    """List the problems there are to solve."""
    data = Server(Settings.from_env()).get("problems", "problems")
    if as_json:
        print_json(data)
        return
    if not data["problems"]:
        print("This server has no problems yet. An organizer adds one with `derby problem add PATH`.")
        return
    rows = [(p["name"], one_line(p["title"], 60), p["family"], " ".join(p["devices"]), "open" if p["open"] else "closed")
            for p in data["problems"]]
    print("\n".join(table(("problem", "title", "family", "devices", "board"), rows)))
    print(f"\nStart with one: derby init {rows[0][0]}")
