"""Stand-in for ``vllm_ascend.vllm_ascend_C``, the operators ``torch.ops._C_ascend`` of vllm-ascend.

vllm-ascend installs without its compiled half by ``COMPILE_CUSTOM_KERNELS=0``. The module of the extension also has
functions of its allocator for sleep mode; they are not here, so that vllm-ascend turns sleep mode off.
"""

from __future__ import annotations

from pathlib import Path

from graph_quant.meta.definitions import define_operators

__all__: list[str] = []

define_operators(Path(__file__).with_name("schemas.txt"))

# isort: split
# Records of operators that are defined by now.
from graph_quant.extensions.vllm_ascend import (  # noqa: E402
    caches,  # noqa: F401
    chunked_delta_rule,  # noqa: F401
    convolution,  # noqa: F401
    delta_rule,  # noqa: F401
    experts,  # noqa: F401
    lora,  # noqa: F401
    matmul,  # noqa: F401
    norms,  # noqa: F401
    routing,  # noqa: F401
    sparse_attention,  # noqa: F401
    speculation,  # noqa: F401
)
