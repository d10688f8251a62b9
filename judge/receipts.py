"""Signatures over verdicts and certificates: Ed25519 keys, made once, kept by the server and its workers."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelderby.core.errors import SetupError
from kernelderby.core.receipt import canonical
from kernelderby.core.settings import Settings
from kernelderby.judge.seeds import kept_secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_BYTES = 32     # of a private key, a public key, a salt


@dataclass(frozen=True)
class SigningKey:
    """A private key. What may be shown of it: `id` and `public`."""

    private: bytes = field(repr=False)     # 32 bytes

    @property
    def public(self) -> str:
        """The public key: 32 bytes in base64url."""
        return _text(_private(self).public_key().public_bytes_raw())

    @property
    def id(self) -> str:
        """A short name of the public key."""
        return key_id(self.public)

    def salt(self, submission: int, attempt: int) -> bytes:
        """The 32 bytes that a run's seed is committed to with; whoever lacks this key cannot guess them, however short the seed."""
        return hmac.new(self.private, f"salt/{submission}/{attempt}".encode(), hashlib.sha256).digest()

    def contest_salt(self, contest: int) -> bytes:
        """The 32 bytes that a contest's seed secret is committed to with."""
        return hmac.new(self.private, f"salt/contest/{contest}".encode(), hashlib.sha256).digest()


def load_key(settings: Settings) -> SigningKey:
    """The platform's key: the setting `signing_key`, else the data folder's, which is made on first use. Raises SetupError."""
    said = settings.signing_key or kept_secret(settings.data / "signing_key")
    raw = _bytes(said)
    if raw is None:
        where = "DERBY_SIGNING_KEY" if settings.signing_key else str(settings.data / "signing_key")
        raise SetupError(f"{where} is no signing key: it must be 32 random bytes in base64url, which are 43 characters.")
    return SigningKey(raw)


def sign(key: SigningKey, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with `key_id` and `signature`. Raises ValueError for what is no JSON."""
    named = {**payload, "key_id": key.id}
    signature = _private(key).sign(canonical(named))
    return {**named, "signature": _text(signature)}


def verify(public_key: str, signed: Mapping[str, Any]) -> bool:
    """Whether that key signed exactly this. False too for what is no signature or no key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public, signature = _bytes(public_key), _decoded(signed.get("signature"))
    if public is None or signature is None or signed.get("key_id") != key_id(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, canonical(signed))
    except (InvalidSignature, ValueError, RecursionError):
        return False
    return True


def key_id(public_key: str) -> str:
    """The short name of a public key: the first 16 hex digits of the SHA-256 of its text."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:16]


def is_public_key(text: str) -> bool:
    """Whether a text can be a public key."""
    return _bytes(text) is not None


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _private(key: SigningKey) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # here: 6 MB that most processes never need

    return Ed25519PrivateKey.from_private_bytes(key.private)


def _bytes(text: str) -> bytes | None:
    raw = _decoded(text)
    return raw if raw is not None and len(raw) == _BYTES else None


def _decoded(text: Any) -> bytes | None:
    """Base64url without padding; None for anything else, and for a second spelling of the same bytes."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if _text(raw) == text else None
