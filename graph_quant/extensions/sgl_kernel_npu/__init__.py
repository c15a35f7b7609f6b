"""Stand-in for ``libsgl_kernel_npu.so``, operators of sglang's kernels in ``torch.ops.npu``.

The Python half of sgl_kernel_npu loads the library when it is imported. Its Triton kernels are not part of it.
"""

from __future__ import annotations

from pathlib import Path

from graph_quant.meta.definitions import define_operators

__all__: list[str] = []

define_operators(Path(__file__).with_name("schemas.txt"))

# isort: split
# Records of operators that are defined by now.
from graph_quant.extensions.sgl_kernel_npu import (  # noqa: E402
    lora,  # noqa: F401
    matmul,  # noqa: F401
    sampling,  # noqa: F401
    token_pool,  # noqa: F401
    trees,  # noqa: F401
)
