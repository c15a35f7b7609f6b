"""How a collective is carried out: what the other ranks are told, and what each does with what it was told."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from .fingerprint import Announced, Told, places
from .gloo import Gloo

Splits = Sequence[Sequence[int]]  # elements that each rank sends to each


def _nothing(_: object) -> None:
    """Do nothing: that all have come is all there is."""


@dataclass(frozen=True)
class Collective:
    """A collective. `given` is what other ranks may need: what `settle` finds in `Told` where that is little.

    Where it is more, `move` carries it.
    """

    call: Announced
    tensors: Sequence[Tensor] = ()  # kept until the collective has run
    given: Sequence[Tensor] = ()
    settle: Callable[[Sequence[Tensor], Splits], None] = lambda *_: None
    move: Callable[[Gloo], None] = _nothing

    def finish(self, gloo: Gloo, told: Told) -> None:
        """Carry the collective out, once all ranks have told that they came to it."""
        if told.data is None:
            self.move(gloo)
        else:
            self.settle(told.data, told.sends)


def pieces(rows: Sequence[Tensor], given: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """For each tensor that this rank gave, what every rank gave in its place."""
    for place, tensor in zip(places(given), given, strict=False):
        yield [row[place : place + tensor.nbytes].view(tensor.dtype).view(tensor.size()) for row in rows]
