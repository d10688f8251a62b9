"""`derby receipt`: a receipt is fetched, kept, checked; and every way in which one can be false has its own sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernelderby.cli.receipt import _check
from kernelderby.core.receipt import commitment
from kernelderby.core.settings import Settings
from kernelderby.judge.receipts import SigningKey, load_key, sign
from kernelderby.judge.seeds import run_seed
from tests.cli.conftest import ROOT, Shell

GOOD = ROOT / "problems/warmup/vector_add/submissions/accepted/torch.py"
STRANGER = SigningKey(bytes(32))


@pytest.fixture(scope="module")
def number(platform: Shell) -> str:
    """A ranked submission that was judged."""
    ranked = ("--mode", "ranked", "--licence", "MIT", "--ai-use", "none")
    sent = platform.derby("submit", str(GOOD), "--problem", "vector_add", *ranked, "--json")
    return str(json.loads(sent.stdout)["submission"])


@pytest.fixture(scope="module")
def receipt(platform: Shell, number: str) -> dict[str, Any]:
    """Its receipt."""
    found: dict[str, Any] = json.loads(platform.derby("receipt", "show", number).stdout)
    return found


@pytest.fixture(scope="module")
def key(platform: Shell, receipt: dict[str, Any]) -> SigningKey:
    """The platform's key."""
    return load_key(Settings(data=platform.folder / ".derby"))


def kept(folder: Path, data: Any) -> str:
    (folder / "receipt.json").write_text(json.dumps(data))
    return str(folder / "receipt.json")


def test_a_submissions_receipt_is_checked_by_its_number(platform: Shell, number: str) -> None:
    done = platform.derby("receipt", "verify", number, "--json")

    found = json.loads(done.stdout)
    assert (done.returncode, found["sound"], found["signature"], found["seed"]) == (0, True, "good", "not_revealed"), done.stderr
    assert found["score_us"] == pytest.approx(found["recomputed_us"], rel=1e-3)
    said = platform.derby("receipt", "verify", number).stdout
    for sentence in ("The signature holds", "The score follows from its blocks", "is not revealed yet", f"Submission {number}, attempt 1"):
        assert sentence in said


def test_a_file_is_checked_without_a_server(platform: Shell, shell: Shell, receipt: dict[str, Any], key: SigningKey, number: str) -> None:
    (shell.folder / "key.pub").write_text(key.public + "\n")
    shown = json.loads(platform.derby("show", number, "--json").stdout)

    for data in (receipt, shown):
        for said in (key.public, str(shell.folder / "key.pub")):
            done = shell.derby("receipt", "verify", kept(shell.folder, data), "--key", said)
            assert (done.returncode, done.stderr) == (0, "")
    assert shell.derby("receipt", "verify", kept(shell.folder, receipt)).returncode == 3, "whose key it is, a server must say"


def again(key: SigningKey, original: dict[str, Any], **said: Any) -> dict[str, Any]:
    """Signed anew, with something else in it."""
    return sign(key, {name: value for name, value in {**original, **said}.items() if name not in ("signature", "key_id")})


FALSE: dict[str, tuple[Callable[[SigningKey, dict[str, Any]], dict[str, Any]], str, str]] = {
    "altered": (lambda key, r: {**r, "score_us": r["score_us"] / 2}, "altered", "ALTERED"),
    "a stranger's": (lambda key, r: again(STRANGER, r), "unknown_key", "UNKNOWN KEY"),
    "a stranger's under our name": (lambda key, r: {**again(STRANGER, r), "key_id": key.id}, "altered", "ALTERED"),
    "another score than its blocks'": (lambda key, r: again(key, r, score_us=r["score_us"] * 1.01), "good", "THE SCORE DIFFERS"),
    "a score without blocks": (lambda key, r: again(key, r, receipt={**r["receipt"], "blocks_us": {}}), "good", "THE SCORE DIFFERS"),
    "a false seed": (lambda key, r: {**r, "reveal": {"salt": "00" * 32, "seed": "00" * 32}}, "good", "THE REVEALED SEED IS NOT"),
    "a broken seed": (lambda key, r: {**r, "reveal": "x"}, "good", "THE REVEALED SEED IS NOT"),
    "unsigned": (lambda key, r: {**{k: v for k, v in r.items() if k != "signature"}}, "unsigned", "UNSIGNED"),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_false_receipt_is_named(shell: Shell, receipt: dict[str, Any], key: SigningKey, name: str) -> None:
    make, signature, sentence = FALSE[name]
    file = kept(shell.folder, make(key, receipt))

    done = shell.derby("receipt", "verify", file, "--key", key.public)
    found = json.loads(shell.derby("receipt", "verify", file, "--key", key.public, "--json").stdout)

    assert (done.returncode, found["sound"], found["signature"]) == (1, False, signature), done.stderr
    assert sentence in done.stdout


def test_a_revealed_seed_is_held_against_the_commitment(shell: Shell, receipt: dict[str, Any], key: SigningKey) -> None:
    salt, seed = b"a" * 32, b"b" * 32
    told = again(key, receipt, receipt={**receipt["receipt"], "seed_commitment": commitment(salt, seed)})
    revealed = kept(shell.folder, {**told, "reveal": {"salt": salt.hex(), "seed": seed.hex()}})

    done = shell.derby("receipt", "verify", revealed, "--key", key.public)

    assert done.returncode == 0 and "The revealed seed is the one committed to." in done.stdout


@pytest.mark.parametrize(("changed", "sentence", "status"), [
    ({}, "follows from the secret that its contest committed to", 0), ({"contest_secret": "00" * 32}, "THE REVEALED SEED IS NOT", 1),
    ({"contest_salt": "00" * 32}, "THE REVEALED SEED IS NOT", 1), ({"contest_secret": "x"}, "THE REVEALED SEED IS NOT", 1)])
def test_a_contests_seed_is_recomputed_from_the_secret_it_committed_to(
        shell: Shell, receipt: dict[str, Any], key: SigningKey, changed: dict[str, str], sentence: str, status: int) -> None:
    salt, contest_salt, secret = b"a" * 32, b"c" * 32, b"d" * 32
    seed = run_seed(secret, receipt["submission"], receipt["attempt"])
    told = again(key, receipt, receipt={**receipt["receipt"], "contest": 1, "contest_commitment": commitment(contest_salt, secret),
                                        "seed_commitment": commitment(salt, seed)})
    opened = {"salt": salt.hex(), "seed": seed.hex(), "contest_salt": contest_salt.hex(), "contest_secret": secret.hex(), **changed}

    done = shell.derby("receipt", "verify", kept(shell.folder, {**told, "reveal": opened}), "--key", key.public)

    assert (done.returncode, sentence in done.stdout) == (status, True), done.stdout


def test_a_verdict_made_here_is_unsigned_and_says_so(shell: Shell, receipt: dict[str, Any], key: SigningKey) -> None:
    judged = json.loads(shell.derby("judge", str(GOOD), "--problem", "vector_add", "--json").stdout)

    done = shell.derby("receipt", "verify", kept(shell.folder, judged), "--key", key.public)

    assert judged["receipt"]["signature"] is None
    assert done.returncode == 1 and "UNSIGNED" in done.stdout and "derby submit" in done.stdout


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "NaN", '{"a": 1}', "[" * 100_000, "\x00", '{"problem": 1, "kind": 2}',
                                  '{"kind": 1, "key_id": "a", "key_id": "b", "signature": "c"}'])
def test_a_file_that_holds_no_receipt_is_a_wrong_request(shell: Shell, text: str) -> None:
    (shell.folder / "r.json").write_text(text)

    done = shell.derby("receipt", "verify", "r.json", "--key", STRANGER.public)

    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


def test_what_is_neither_file_nor_number_is_told(platform: Shell) -> None:
    done = platform.derby("receipt", "verify", "nowhere.json")
    assert (done.returncode, done.stdout) == (2, "") and "nowhere.json" in done.stderr
    assert platform.derby("receipt", "verify", "999999").returncode == 2


def test_a_name_or_key_that_no_file_can_have_is_told(platform: Shell, number: str, receipt: dict[str, Any]) -> None:
    (platform.folder / "binary.key").write_bytes(b"\xff" * 40)
    named = [platform.derby("receipt", "verify", name) for name in ("x" * 5000, "9" * 40, "\N{SUPERSCRIPT TWO}")]
    keyed = [platform.derby("receipt", "verify", kept(platform.folder, receipt), "--key", key) for key in ("binary.key", "x" * 5000)]

    for done in (*named, *keyed):
        assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


def test_what_is_said_twice_in_a_file_is_refused(shell: Shell, receipt: dict[str, Any], key: SigningKey) -> None:
    text = json.dumps(receipt)
    (shell.folder / "r.json").write_text('{"score_us": 0.001, ' + text[1:])

    done = shell.derby("receipt", "verify", "r.json", "--key", key.public)

    assert (done.returncode, done.stdout) == (2, "") and "twice" in done.stderr


def test_another_submissions_receipt_does_not_stand_for_this_one(receipt: dict[str, Any], key: SigningKey, monkeypatch: pytest.MonkeyPatch,
                                                                 tmp_path: Path) -> None:
    monkeypatch.setattr("kernelderby.cli.receipt._fetched", lambda server, name: receipt)
    asked = int(receipt["submission"]) + 1

    found = _check(Settings(data=tmp_path), str(asked), key.public)

    assert (found.sound, found.signature) == (False, "good") and f"no receipt of submission {asked}" in found.message


def test_the_api_serves_keys_and_receipts(platform: Shell, receipt: dict[str, Any], key: SigningKey, number: str) -> None:
    url = (platform.folder / ".derby" / "url").read_text().strip()

    keys = httpx.get(f"{url}/api/v1/keys").json()["keys"]
    answer = httpx.get(f"{url}/api/v1/submissions/{number}/receipt")

    assert [(k["key_id"], k["public"]) for k in keys] == [(key.id, key.public)]
    assert answer.json() == receipt and answer.headers["content-type"] == "application/json"
    assert key.public not in answer.text and "log" not in receipt
