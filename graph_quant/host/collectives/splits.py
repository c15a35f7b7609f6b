"""Splits of tensors over ranks."""

from collections.abc import Sequence

from torch import Tensor


def check_parts(name: str, whole: Tensor, part: Tensor, ranks: int) -> None:
    if whole.nbytes != part.nbytes * ranks:
        ratio = f"got {whole.nbytes} and {part.nbytes} bytes for {ranks} ranks"
        raise RuntimeError(f"hccl {name}: the whole must be as large as a part of each rank, {ratio}")


def elements_per_rank(name: str, tensor: Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """Return the number of elements for each rank; no ``splits`` means equal parts."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % ranks:
            raise RuntimeError(f"hccl {name}: {rows} rows cannot be split evenly over {ranks} ranks")
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows:
        raise RuntimeError(f"hccl {name}: splits must be {ranks} and add up to {rows} rows, got {list(splits)}")
    return [rows_of_rank * (tensor.numel() // max(rows, 1)) for rows_of_rank in splits]
