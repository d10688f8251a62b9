"""Receipts: what is signed, by which key, and what becomes of it when somebody changes a character."""

import copy
import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.errors import SetupError
from kernelderby.core.receipt import NotSigned, canonical, commitment, opens, payload_of, receipt_of, sealed
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import CaseResult, Flag, Mode, Outcome, State, Verdict
from kernelderby.judge.receipts import SigningKey, is_public_key, key_id, load_key, sign, verify
from kernelderby.storage import signing_keys
from kernelderby.storage.database import Database

KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(bytes(32))
VERDICT = Verdict(
    submission=12, problem="doubling", version="9f2c", device="h200", mode=Mode.RANKED, outcome=Outcome.ACCEPTED, score_us=2.0,
    score_ci_us=(1.9, 2.1), attempt=2, flags=[Flag.UNCERTIFIED], cases=[CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=2.0)],
    environment={"gpu": "NVIDIA H200"}, receipt={"gate_set": "ab", "seed_commitment": "cd", "blocks_us": {"tiny": [[2.0], [2.0, 1.0]]}},
    stages_s={"total": 3.0}, log="printed", rank=(1, 1))


def signed_verdict() -> dict[str, Any]:
    return sealed(VERDICT, sign(KEY, payload_of(VERDICT))).model_dump(mode="json")


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything below `data` that is no container."""
    if not isinstance(data, dict | list):
        return [path]
    items = data.items() if isinstance(data, dict) else enumerate(data)
    return [leaf for key, value in items for leaf in leaves(value, (*path, key))]


def changed(data: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy with one leaf changed."""
    data = copy.deepcopy(data)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return data


def other(value: Any) -> Any:
    return value + 1 if isinstance(value, int | float) else "A" + str(value)[1:] if str(value)[:1] != "A" else "B"


def test_a_signature_holds_for_what_was_signed_alone() -> None:
    receipt = receipt_of(signed_verdict())

    assert verify(KEY.public, receipt)
    assert verify(KEY.public, json.loads(json.dumps(receipt)))
    assert not verify(OTHER.public, receipt)
    wrong = [path for path in leaves(receipt) if verify(KEY.public, changed(receipt, path, other))]
    assert not wrong, "each leaf of it is under the signature"


@pytest.mark.parametrize("name", sorted(receipt_of(signed_verdict()).keys() - {"signature"}))
def test_nothing_can_be_left_out_or_put_in(name: str) -> None:
    receipt = receipt_of(signed_verdict())

    assert not verify(KEY.public, {key: value for key, value in receipt.items() if key != name})
    assert not verify(KEY.public, {**receipt, f"{name}_": receipt[name]})


def test_everything_that_decides_is_signed_and_nothing_private() -> None:
    receipt = receipt_of(signed_verdict())

    assert {"submission", "attempt", "problem", "version", "device", "mode", "outcome", "gate", "score_us", "score_ci_us", "flags", "cases",
            "environment", "receipt", "key_id", "kind"} <= receipt.keys()
    assert not {"log", "rank", "stages_s", "state", "person"} & receipt.keys()
    assert {"gate_set", "seed_commitment", "blocks_us"} <= receipt["receipt"].keys()


def test_the_receipt_survives_what_happens_to_a_verdict_later() -> None:
    later = {**signed_verdict(), "rank": [4, 5], "state": State.DONE, "log": None, "person": "ada", "a_key_of_the_next_release": 1}

    assert verify(KEY.public, receipt_of(later))


@pytest.mark.parametrize("verdict", [
    VERDICT.model_dump(mode="json"), {}, {"receipt": None}, {"receipt": {"signature": None}}, {"receipt": {"signature": "x"}},
    {"receipt": {"signature": "x", "signed": ["problem"]}, "problem": "p"},
])
def test_what_nobody_signed_has_no_receipt(verdict: dict[str, Any]) -> None:
    with pytest.raises(NotSigned):
        receipt_of(verdict)


@pytest.mark.parametrize("signature", [None, 1, "", "A", "A" * 86, "é", "A" * 1000, [1]])
def test_a_text_that_is_no_signature_is_none(signature: Any) -> None:
    assert not verify(KEY.public, {**receipt_of(signed_verdict()), "signature": signature})


@pytest.mark.parametrize("public", ["", "x", "A" * 44, "é" * 43, KEY.public + "=", KEY.public[:-1]])
def test_a_text_that_is_no_key_is_none(public: str) -> None:
    assert not is_public_key(public)
    assert not verify(public, receipt_of(signed_verdict()))


def test_the_same_bytes_have_one_spelling() -> None:
    """Base64 of 32 bytes leaves bits over; a second spelling would be a second name for a key, and a second signature."""
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spellings = [KEY.public[:-1] + c for c in last if is_public_key(KEY.public[:-1] + c)]

    assert KEY.public in spellings and len(spellings) == 16


def test_what_is_no_json_is_not_signed() -> None:
    with pytest.raises(ValueError):
        sign(KEY, {"score_us": float("nan")})
    assert canonical({"b": 1, "a": (1, 2), "signature": "x"}) == b'{"a":[1,2],"b":1}'


def test_the_data_folders_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first, second = load_key(Settings(data=tmp_path)), load_key(Settings(data=tmp_path))

    assert first == second != load_key(Settings(data=tmp_path / "another"))
    assert stat.S_IMODE((tmp_path / "signing_key").stat().st_mode) == 0o600
    assert (tmp_path / "signing_key").read_text().strip() not in repr(first)


def test_a_setting_goes_before_the_data_folder(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("A" * 43 + "\n")
    settings = Settings.from_env({"DERBY_SIGNING_KEY_FILE": str(file), "DERBY_DATA": str(tmp_path)})

    assert load_key(settings) == SigningKey(bytes(32))
    assert not (tmp_path / "signing_key").exists()


@pytest.mark.parametrize("text", ["short", "A" * 44, "é" * 43, "A" * 42 + "B"])
def test_a_key_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(SetupError, match="DERBY_SIGNING_KEY is no signing key"):
        load_key(Settings(data=tmp_path, signing_key=text))


def test_a_commitment_is_opened_by_its_own_salt_and_seed_alone() -> None:
    salt, seed = KEY.salt(12, 1), b"s" * 32
    committed = commitment(salt, seed)

    assert opens(committed, salt, seed)
    assert not opens(committed, salt, b"t" * 32)
    assert not opens(committed, OTHER.salt(12, 1), seed)
    assert not opens(committed, salt + seed[:1], seed[1:]), "salt and seed cannot be cut at another place"
    assert not opens("é", salt, seed)


def test_each_run_has_a_salt_of_its_own() -> None:
    assert len({key.salt(s, a) for key in (KEY, OTHER) for s in (1, 11) for a in (1, 11)}) == 8


def test_every_key_that_signed_stays_known(database: Database) -> None:
    for key in (KEY, OTHER, KEY):
        with database.begin() as session:
            signing_keys.add(session, key.id, key.public)

    with database.read() as session:
        found = signing_keys.listing(session)
    assert [(k.id, k.public) for k in found] == [(KEY.id, KEY.public), (OTHER.id, OTHER.public)]
    assert key_id(found[0].public) == found[0].id and found[0].since <= datetime.now(UTC)
