"""`derby receipt`: read and check what a server signed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelderby.cli.options import AsJson, Number, is_number
from kernelderby.cli.output import NOT_ACCEPTED, number, print_json
from kernelderby.cli.server import Server
from kernelderby.core.errors import RequestError
from kernelderby.core.receipt import VERDICT, NotSigned, opens, receipt_of
from kernelderby.core.scoring import estimate
from kernelderby.core.settings import Settings
from kernelderby.core.text import clean_text, one_line

_ROUNDED_US = 0.0005     # of each time in a receipt; the score was made before they were rounded
_LARGEST = 64 << 20      # bytes of a receipt's file
_UNKNOWN = ("UNKNOWN KEY: it is signed with the key {}, which is not among those known here ({}). If another server signed it, "
            "name that server's public key with --key.")
_ALTERED = "ALTERED: this is not what the key {} signed."
_UNSIGNED = ("UNSIGNED: no server vouches for this. A verdict of `derby judge` is made here and never signed; "
             "`derby submit` gets one that is.")
_SEEDS = {"opens": "The revealed seed is the one committed to.",
          "follows": "The revealed seed is the one committed to, and follows from the secret that its contest committed to.",
          "wrong": "THE REVEALED SEED IS NOT the one committed to.",
          "not_revealed": "The seed it commits to is not revealed yet."}
_OTHER = "ANOTHER'S: this is no receipt of submission {}."
_NAMED = ("submission", "attempt", "problem", "version", "device", "mode", "outcome")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a receipt found."""

    sound: bool                             # the signature holds, and nothing in it contradicts it
    signature: str                          # good, altered, unknown_key, unsigned
    message: str
    submission: Any = None
    key_id: str | None = None
    score_us: float | None = None
    recomputed_us: float | None = None      # from the blocks; None where there are none
    seed: str = "not_revealed"              # not_revealed, opens, follows (from its contest's secret, too), wrong


def build() -> typer.Typer:
    """The commands below `derby receipt`."""
    app = typer.Typer(no_args_is_help=True, help="Read and check the signed receipts of verdicts.")
    app.command("show")(show)
    app.command("verify")(verify_)
    return app


def show(submission: Number) -> None:
    """Print the receipt of a submission, to keep it: one JSON object."""
    print_json(_fetched(Server(Settings.from_env()), str(submission)))


def verify_(
    receipt: Annotated[str, typer.Argument(metavar="FILE|ID", help="A receipt's file, or a submission's number.", show_default=False)],
    key: Annotated[str | None, typer.Option(metavar="PUBLIC", help="The public key or its file. Default: ask the server.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt: its signature, its score against its blocks, and the seed where it was revealed."""
    found = _check(Settings.from_env(), receipt, key)
    if as_json:
        print_json(asdict(found))
    else:
        print(clean_text(found.message))
    raise typer.Exit(0 if found.sound else NOT_ACCEPTED)


def check(signed: Mapping[str, Any], keys: Mapping[str, str]) -> Checked:
    """Hold a receipt against public keys by id."""
    from kernelderby.judge.receipts import verify

    key_id = one_line(str(signed.get("key_id")), 40)
    told: dict[str, Any] = {"submission": signed.get("submission"), "key_id": key_id}
    if key_id not in keys:
        return Checked(sound=False, signature="unknown_key", message=_UNKNOWN.format(key_id, ", ".join(keys) or "none"), **told)
    if not verify(keys[key_id], signed):
        return Checked(sound=False, signature="altered", message=_ALTERED.format(key_id), **told)
    return _contents(signed, told)


def _contents(signed: Mapping[str, Any], told: dict[str, Any]) -> Checked:
    """Of a receipt whose signature holds: whether it agrees with itself."""
    score, again, seed = signed.get("score_us"), _recomputed(signed), _seed(signed)
    agrees = _agree(score, again, signed)
    sentences = [f"The signature holds (key {told['key_id']}).", _what(signed)]
    if again is not None and agrees:
        sentences.append(f"The score follows from its blocks: {number(again, 3)} µs.")
    if not agrees:
        sentences.append(f"THE SCORE DIFFERS: it says {number(score, 3)} µs, its blocks give {number(again, 3)} µs.")
    if "reveal" in signed or signed.get("kind") == VERDICT:     # a receipt of another kind commits to no seed
        sentences.append(_SEEDS[seed])
    return Checked(sound=agrees and seed != "wrong", signature="good", message="\n".join(sentences), score_us=score,
                   recomputed_us=again, seed=seed, **told)


def _check(settings: Settings, name: str, key: str | None) -> Checked:
    server, file = Server(settings), _file(name)
    try:
        signed = _read(file) if file else _fetched(server, name)
    except NotSigned:
        return Checked(sound=False, signature="unsigned", message=_UNSIGNED)
    found = check(signed, _keys(server, key))
    if file or found.submission == int(name):
        return found
    return replace(found, sound=False, message=f"{_OTHER.format(int(name))}\n{found.message}")


def _file(name: str) -> Path | None:
    """The file of that name, where there is one."""
    try:
        return Path(name) if Path(name).is_file() else None
    except (OSError, ValueError):      # no file can have that name
        return None


def _fetched(server: Server, name: str) -> dict[str, Any]:
    if not is_number(name):
        raise RequestError(f"There is no file {one_line(name, 120)!r}. Name a receipt's file, or a submission by its number.")
    return server.get(f"submissions/{name}/receipt", "signature")


def _read(file: Path) -> dict[str, Any]:
    """A receipt from its own file, or from a verdict's. Raises NotSigned, RequestError."""
    try:
        with file.open("rb") as opened:
            data = json.loads(opened.read(_LARGEST), object_pairs_hook=_object)
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{file} cannot be read as JSON: {one_line(error, 120)}.") from None
    if not isinstance(data, dict):
        raise RequestError(f"{file} holds no receipt: it must be one JSON object.")
    if "kind" in data and "key_id" in data and "signature" in data:
        return data
    if not {"outcome", "problem"} <= data.keys():
        raise RequestError(f"{file} is neither a receipt nor a verdict. `derby receipt show ID` prints one.")
    return receipt_of(data)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object that every reader reads alike. Raises ValueError for one that says something twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object in it says the same name twice")
    return found


def _keys(server: Server, key: str | None) -> dict[str, str]:
    """Public keys by id: the one that was named, else the server's."""
    from kernelderby.judge.receipts import is_public_key, key_id

    if key is None:
        return {key_id(row["public"]): row["public"] for row in server.get("keys", "keys")["keys"]}
    file = _file(key)
    text = file.read_text(errors="replace").strip() if file else key.strip()
    if not is_public_key(text):
        raise RequestError("--key is no public key: it is 43 characters of base64url, as the server's /api/v1/keys says it.")
    return {key_id(text): text}


def _what(signed: Mapping[str, Any]) -> str:
    if signed.get("kind") != VERDICT:
        return f"It is a {one_line(str(signed.get('kind')), 40)}, no verdict."
    said = {name: one_line(str(signed.get(name)), 80) for name in _NAMED}
    marks = f", marked {' '.join(map(str, signed['flags']))}" if signed.get("flags") else ""
    return ("Submission {submission}, attempt {attempt}: {problem} (version {version}) on {device}, {mode}: {outcome}".format(**said)
            + f"{marks}.")


def _recomputed(signed: Mapping[str, Any]) -> float | None:
    """The score by the blocks; None where there are none."""
    blocks = (signed.get("receipt") or {}).get("blocks_us")
    if not blocks or signed.get("score_us") is None:
        return None
    return estimate(list(blocks.values())).score_us


def _agree(score: float | None, again: float | None, signed: Mapping[str, Any]) -> bool:
    if score is None or again is None:
        return score is None and again is None
    shortest: float = min(time for case in signed["receipt"]["blocks_us"].values() for block in case for time in block)
    return abs(score - again) <= again * _ROUNDED_US / shortest + 1e-9 * again


def _seed(signed: Mapping[str, Any]) -> str:
    """Whether `reveal`, which is added once a run's salt and seed may be known, opens the commitment that was signed."""
    if "reveal" not in signed:
        return "not_revealed"
    try:
        salt, seed = (bytes.fromhex(signed["reveal"][name]) for name in ("salt", "seed"))
    except (KeyError, TypeError, ValueError):
        return "wrong"
    inner = signed.get("receipt", {})
    if not opens(str(inner.get("seed_commitment")), salt, seed):
        return "wrong"
    return "opens" if "contest_commitment" not in inner else _follows(signed, seed)


def _follows(signed: Mapping[str, Any], seed: bytes) -> str:
    """Whether a contest's run drew from the secret that was committed to at the start."""
    from kernelderby.judge.seeds import run_seed

    try:
        salt, secret = (bytes.fromhex(signed["reveal"][name]) for name in ("contest_salt", "contest_secret"))
        follows = run_seed(secret, int(signed["submission"]), int(signed["attempt"])) == seed
    except (KeyError, TypeError, ValueError):
        return "wrong"
    return "follows" if follows and opens(str(signed["receipt"]["contest_commitment"]), salt, secret) else "wrong"
