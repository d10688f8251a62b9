"""Whether a device is as it was before a box: looked at between boxes, never during timed blocks."""

from collections.abc import Collection
from typing import Protocol


class Health(Protocol):
    """What looks after one device."""

    def note(self) -> None:
        """Remember how the device is now, before a box is lent."""

    def fault(self, ended: Collection[int]) -> str | None:
        """What is not as it was, and what to do, once the boxes with these processes are gone; None when all is well."""


class Hale:
    """A processor leaves nothing behind that a box's end does not take away."""

    def note(self) -> None:
        return

    def fault(self, ended: Collection[int]) -> str | None:
        """Never anything."""
        return None
