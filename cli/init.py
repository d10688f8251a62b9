"""`derby init`."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json
from kernelderby.cli.server import Server
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.text import clean_text


def init(
    problem: Annotated[str, typer.Argument(metavar="P", help="The problem's name.", show_default=False)],
    folder: Annotated[Path | None, typer.Option("--into", metavar="DIR", help="A folder for the files. Default: ./P")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a problem's statement and starters, to begin with."""
    data = Server(Settings.from_env()).get(f"problems/{quote(problem, safe='')}", "starters")
    files = {"statement.md": data["statement"], **data["starters"]}
    into = folder or Path(Path(data["name"]).name)
    written = [_write(into / Path(name).name, text) for name, text in files.items()]   # a server's names stay inside the folder
    if as_json:
        print_json({"problem": data["name"], "files": [str(p) for p in written]})
        return
    print("\n".join(f"  {p}" for p in written))
    starters = sorted((p for p in written if p.name.startswith("starter")), key=lambda p: p.suffix != ".py")   # every class runs .py
    if starters:
        first = starters[0]
        print(f"\nEdit {first}, then:  derby submit {first} --problem {data['name']}")


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as f:
            f.write(clean_text(text, limit=1_000_000))
    except FileExistsError:
        raise RequestError(f"{path} is there already. Move it away, or choose another folder with --into DIR.") from None
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}.") from None
    return path
