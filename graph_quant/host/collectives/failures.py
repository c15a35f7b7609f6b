"""What a group says of its failures: which rank gave up waiting, which has ended, and that it can go on no more."""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

# A rank that gives up says so right after its connections are closed: whoever sees those may be before it.
_SECONDS_FOR_A_NOTE = 0.5


class Failures:
    """The failures of a group as one of its ranks sees them; ranks that give up leave notes for the others."""

    def __init__(self, store: Any, name: str, rank: int, ranks: int) -> None:
        self._store, self._name, self._rank, self._ranks = store, name, rank, ranks
        self._why_not: str | None = None

    def check(self, collective: str) -> None:
        """Raise if the group is of no use any more."""
        if self._why_not is not None:
            raise RuntimeError(f"{self._who(collective)}: {self._why_not}")

    def end(self) -> None:
        """From here on, the group is destroyed, and its store is not kept."""
        self._why_not = "the group was destroyed"
        self._store = None

    def explain(self, collective: str, said: str, limit: timedelta) -> str:
        """Return what went wrong in a collective of which Gloo has `said` something."""
        late, broken = "imed out" in said or "imeout" in said, "onnection" in said or "peer" in said
        if not late and not broken:
            return f"{self._who(collective)}: {said}"
        why = self._lateness(collective, limit) if late else self._break()
        self._why_not = f"an earlier call failed, and the group cannot go on: {why}"
        return f"{self._who(collective)}: {why} ({said})"

    def _who(self, collective: str) -> str:
        return f"hccl {collective} in group {self._name}, rank {self._rank} of {self._ranks}"

    def _lateness(self, collective: str, limit: timedelta) -> str:
        why = f"not every rank arrived within {limit.total_seconds():g} s"
        others = self._notes()
        with suppress(RuntimeError, AttributeError):  # the store may have ended with its rank, or with the group
            self._store.set(_note_of(self._rank), f"in {collective} {why}")
        return "; ".join([why, *others])

    def _break(self) -> str:
        deadline = time.monotonic() + _SECONDS_FOR_A_NOTE
        while not (notes := self._notes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return "; ".join(notes) or "another rank has ended"

    def _notes(self) -> list[str]:
        """What other ranks have said when they gave up."""
        others = [rank for rank in range(self._ranks) if rank != self._rank]
        try:
            gone = [rank for rank in others if self._store.check([_note_of(rank)])]
            return [f"rank {rank} has given up: {self._store.get(_note_of(rank)).decode()}" for rank in gone]
        except (RuntimeError, AttributeError):
            return []


def _note_of(rank: int) -> str:
    return f"rank {rank} gave up"
