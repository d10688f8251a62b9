"""The secret that per-run seeds come from, and the files that keep such secrets."""

import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from kernelderby.core.errors import SetupError
from kernelderby.core.settings import Settings


def run_seed(secret: bytes, submission: int, attempt: int) -> bytes:
    """The 32 bytes that all draws of a run derive from: nobody without the secret can foresee them, and a rejudge has others."""
    return hmac.new(secret, f"{submission}/{attempt}".encode(), hashlib.sha256).digest()


def contest_secret(secret: bytes, contest: int) -> bytes:
    """The 32 bytes that the seeds of a contest's runs come from: once it is revealed, everybody can foresee them, and no others."""
    return hmac.new(secret, f"contest/{contest}".encode(), hashlib.sha256).digest()


def secret_of(settings: Settings) -> bytes:
    """The platform's secret: the setting, else the data folder's, which is made on first use. Raises SetupError."""
    if settings.secret:
        return settings.secret.encode()
    return kept_secret(settings.data / "secret").encode()


def kept_secret(path: Path) -> str:
    """The 32 random bytes that a file keeps for its owner alone, in base64url; made on first use. Raises SetupError."""
    try:
        if not path.exists():
            _make(path)
        return path.read_text().strip()
    except OSError as error:
        raise SetupError(f"The secret {path} cannot be read or made: {error.strerror}.") from None


def _make(path: Path) -> None:
    """Of several that make it at once, the first wins; nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent)   # mode 0600
    try:
        with os.fdopen(fd, "w") as f:
            f.write(secrets.token_urlsafe(32) + "\n")
            f.flush()
            os.fsync(f.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        Path(temporary).unlink(missing_ok=True)
