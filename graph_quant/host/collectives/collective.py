"""A collective: the call that ranks agree on, its inputs, and how its data is moved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from .fingerprint import ExchangeResult, Fingerprint, offsets
from .gloo import Gloo

Splits = Sequence[Sequence[int]]  # elements that each rank sends to each


@dataclass(frozen=True)
class Collective:
    """A collective call.

    Small `inputs` are exchanged with the fingerprint, and `copy_inline` writes the results from all ranks' rows. Larger
    ones are moved by `transfer`.
    """

    call: Fingerprint
    tensors: Sequence[Tensor] = ()  # kept until the collective has run
    inputs: Sequence[Tensor] = ()
    copy_inline: Callable[[Sequence[Tensor], Splits], None] = lambda *_: None
    transfer: Callable[[Gloo], object] = lambda _: None

    def finish(self, gloo: Gloo, exchanged: ExchangeResult) -> None:
        """Move the data, once all ranks have arrived."""
        if exchanged.data is None:
            self.transfer(gloo)
        else:
            self.copy_inline(exchanged.data, exchanged.sends)


def parts_by_tensor(rows: Sequence[Tensor], inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield, for each input of this rank, the corresponding inputs of all ranks."""
    for start, tensor in zip(offsets(inputs), inputs, strict=False):
        yield [row[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.size()) for row in rows]
