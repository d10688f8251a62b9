"""The documents name what is there, and nothing that is not."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path

import pytest
import typer

from kernelderby.cli.main import build
from kernelderby.core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
with (ROOT / "pyproject.toml").open("rb") as _file:
    PROJECT = tomllib.load(_file)["project"]


def commands(app: typer.Typer, before: str = "derby") -> Iterator[str]:
    group = typer.main.get_command(app)
    for name, command in getattr(group, "commands", {}).items():
        inner = getattr(command, "commands", None)
        shown = (f"{before} {name}" if c.hidden else f"{before} {name} {n}" for n, c in inner.items()) if inner else ()
        yield from shown if inner else (f"{before} {name}",)      # a hidden one is what the group does by itself


@pytest.mark.parametrize("command", list(commands(build())))
def test_each_command_stands_in_the_readme(command: str) -> None:
    assert re.search(rf"^\| `{command}\b", README, re.MULTILINE)


def test_the_readme_names_no_command_that_is_not_there() -> None:
    known, rows = set(commands(build())), re.findall(r"^\| `(derby [^`]+)`", README, re.MULTILINE)

    assert {_command(row.split(), known) for row in rows} <= known


def _command(words: list[str], known: set[str]) -> str:
    """The command that a row of the table names, with its group where it has one."""
    return next((said for n in (3, 2) if (said := " ".join(words[:n])) in known), " ".join(words))


@pytest.mark.parametrize("setting", [f.name for f in fields(Settings)])
def test_each_setting_stands_in_the_readme(setting: str) -> None:
    assert re.search(rf"^\| `DERBY_{setting.upper()}` \|", README, re.MULTILINE)


@pytest.mark.parametrize("requirement", sorted({*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())}))
def test_each_dependency_has_its_reason(requirement: str) -> None:
    name = re.split(r"[\[<>=~! ]", requirement)[0]

    assert f"**{name}**" in (ROOT / "docs/reasons.md").read_text()


def test_the_changelog_knows_the_version() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert newest
    assert newest[1] == PROJECT["version"]


def test_architecture_is_short_and_names_files_that_are_there() -> None:
    named = set(re.findall(r"`([a-z_]+/[\w./]+)`", ARCHITECTURE))

    assert len(ARCHITECTURE.splitlines()) <= 120
    assert not {n for n in named if not (ROOT / n).exists()}


@pytest.mark.parametrize("document", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
