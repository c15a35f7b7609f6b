"""Restores torch_npu's and TorchAir's own handling of the operators, for comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from graph_quant import converters, meta
from graph_quant.converters.decompositions import switched_off
from graph_quant.releases.alternatives import implement


@contextmanager
def upstream() -> Iterator[None]:
    """Let upstream infer and lower the operators inside the block; this project's are restored after it."""
    import torchair  # noqa: F401  (its import registers this project's converters)

    ours = {operator: operator._ge_converter for operator in converters.UPSTREAM}
    meta.unregister()
    try:
        with switched_off(), torch.library._scoped_library("npu", "IMPL") as library:
            for name, record in meta.RECORDS.items():
                if not name.startswith("npu::"):  # another extension may have an operator of the same title
                    continue
                if record.rules is not None and (infer := meta.upstream(record.title)):
                    implement(library, name, infer, "Meta")
            for operator, converter in converters.UPSTREAM.items():
                operator._ge_converter = converter
            yield
    finally:
        for operator, converter in ours.items():
            operator._ge_converter = converter
        meta.register()
