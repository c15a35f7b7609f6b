"""Explains failures of a group: which rank timed out, which has ended, and that the group cannot be used any more."""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

# A rank that gives up leaves its note after its connections close, so another rank may look for the note too early.
_SECONDS_FOR_A_NOTE = 0.5


class Failures:
    """The failures of a group, as one rank sees them. Ranks that time out leave notes in the store."""

    def __init__(self, store: Any, name: str, rank: int, ranks: int) -> None:
        self._store, self._name, self._rank, self._ranks = store, name, rank, ranks
        self._failure: str | None = None

    def check(self, collective: str) -> None:
        """Raise if the group has failed or was destroyed."""
        if self._failure is not None:
            raise RuntimeError(f"{self._prefix(collective)}: {self._failure}")

    def end(self) -> None:
        """Mark the group as destroyed, and drop its store."""
        self._failure = "the group was destroyed"
        self._store = None

    def explain(self, collective: str, message: str, limit: timedelta) -> str:
        """Return a message that explains Gloo's error `message` in a collective."""
        late, broken = "imed out" in message or "imeout" in message, "onnection" in message or "peer" in message
        if not late and not broken:
            return f"{self._prefix(collective)}: {message}"
        why = self._explain_timeout(collective, limit) if late else self._explain_disconnect()
        self._failure = f"an earlier call failed, and the group cannot go on: {why}"
        return f"{self._prefix(collective)}: {why} ({message})"

    def _prefix(self, collective: str) -> str:
        return f"hccl {collective} in group {self._name}, rank {self._rank} of {self._ranks}"

    def _explain_timeout(self, collective: str, limit: timedelta) -> str:
        why = f"not every rank arrived within {limit.total_seconds():g} s"
        others = self._notes()
        with suppress(RuntimeError, AttributeError):  # the store may have ended with its rank, or with the group
            self._store.set(_note_key(self._rank), f"in {collective} {why}")
        return "; ".join([why, *others])

    def _explain_disconnect(self) -> str:
        deadline = time.monotonic() + _SECONDS_FOR_A_NOTE
        while not (notes := self._notes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return "; ".join(notes) or "another rank has ended"

    def _notes(self) -> list[str]:
        """Return the notes of ranks that gave up."""
        others = [rank for rank in range(self._ranks) if rank != self._rank]
        try:
            gone = [rank for rank in others if self._store.check([_note_key(rank)])]
            return [f"rank {rank} has given up: {self._store.get(_note_key(rank)).decode()}" for rank in gone]
        except (RuntimeError, AttributeError):
            return []


def _note_key(rank: int) -> str:
    return f"rank {rank} gave up"
