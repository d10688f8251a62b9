"""The form of a receipt: what of a verdict stands under a signature, the bytes that are signed, and the commitment to a run's seed.

A receipt is one flat JSON object: the payload, `key_id` and `signature` (Ed25519, base64url), which covers all the rest. Once a run's salt
and seed may be known, `reveal` is added, {"salt", "seed"} in hex: the signed commitment vouches for it. Of a contest's run it also holds
{"contest_salt", "contest_secret"}: the secret that all its seeds come from, which `contest_commitment` vouches for.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from kernelderby.core.errors import NotFound
from kernelderby.core.verdict import Verdict

VERDICT = "verdict"                                    # the kind of receipt that a verdict has; a runner's certificate is another kind
_UNSIGNED = {"state", "rank", "stages_s", "log"}       # rank moves with the board, stages are no result, the log is private
_ADDED = ("signature", "reveal")


class NotSigned(NotFound):
    """No server signed this verdict."""


def canonical(signed: Mapping[str, Any]) -> bytes:
    """What the signature covers: JSON with sorted keys and no spaces, in ASCII. Raises ValueError for NaN or infinity."""
    covered = {key: value for key, value in signed.items() if key not in _ADDED}
    return json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def payload_of(verdict: Verdict) -> dict[str, Any]:
    """What of a verdict is signed: everything that decides, and every block. The names stand in it themselves, under `receipt.signed`."""
    whole = verdict.model_dump(mode="json")
    names = [name for name in whole if name not in _UNSIGNED]
    whole["receipt"]["signed"] = names
    return {"kind": VERDICT, **{name: whole[name] for name in names}}


def sealed(verdict: Verdict, signed: Mapping[str, Any]) -> Verdict:
    """The verdict with its signature, so that `receipt_of` can say the receipt again."""
    receipt = {**signed["receipt"], "key_id": signed["key_id"], "signature": signed["signature"]}
    return verdict.model_copy(update={"receipt": receipt})


def receipt_of(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt of a verdict's JSON, which may hold more than was signed. Raises NotSigned."""
    inner = verdict.get("receipt")
    if not isinstance(inner, Mapping) or not inner.get("signature"):
        raise NotSigned
    names = inner.get("signed")
    if not isinstance(names, list) or "receipt" not in names:
        raise NotSigned
    receipt = {key: value for key, value in inner.items() if key not in ("key_id", "signature")}
    covered = {name: verdict[name] for name in names if isinstance(name, str) and name in verdict}
    return {"kind": VERDICT, **covered, "receipt": receipt, "key_id": inner.get("key_id"), "signature": inner["signature"]}


def commitment(salt: bytes, seed: bytes) -> str:
    """What may be shown before a seed is: SHA-256 of a secret salt of 32 bytes and the seed, in hex."""
    return hashlib.sha256(salt + seed).hexdigest()


def opens(committed: str, salt: bytes, seed: bytes) -> bool:
    """Whether salt and seed, once revealed, are those that were committed to."""
    return len(salt) == 32 and hmac.compare_digest(commitment(salt, seed).encode(), committed.encode())
