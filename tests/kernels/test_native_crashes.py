"""Arguments that ended the process inside native code, or were read beyond their memory: refused, or computed.

One process tries all of them, so that a crash is a failed test and not the end of the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

CODE = """
import json
import graph_quant, torch, torch_npu
from graph_quant.ge.values import list_of_sizes
from graph_quant.host.kernels import KERNELS

t = torch.randn
SHAPES = {
    "LayerNormGradV3 rows": ("LayerNormGradV3", [t(4, 8), t(4, 8), t(1), t(1), t(8)], {}),
    "LayerNormGradV3 dy": ("LayerNormGradV3", [t(1, 8), t(4, 8), t(4), t(4), t(8)], {}),
    "BatchNormV3": ("BatchNormV3", [t(2, 64, 3, 3), t(1), t(1), t(1), t(1)], {}),
    "BNInfer": ("BNInfer", [t(2, 64, 3, 3), t(1), t(1), t(1), t(1)], {}),
    "GridSampler2DGrad": ("GridSampler2DGrad", [t(1, 1, 1, 1), t(1, 2, 8, 8), torch.rand(1, 64, 64, 2)], {}),
    "PadV3Grad": ("PadV3Grad", [t(1, 1, 9), list_of_sizes([0, 0, 0, 0, 4, 4])], {"mode": "reflect"}),
    "LogSoftmaxGrad": ("LogSoftmaxGrad", [t(1, 1), t(64, 64)], {}),
    "EmbeddingDenseGrad": ("EmbeddingDenseGrad", [t(1, 4), torch.tensor([1 << 40])], {"num_weights": 3}),
}
told = {}
for name, (op_type, arguments, attributes) in SHAPES.items():
    try:
        KERNELS[op_type].function(*arguments, **attributes)
        told[name] = "computed"
    except (ValueError, IndexError) as error:
        told[name] = str(error)
quotients = {}
for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
    x = torch.tensor([torch.iinfo(dtype).min, 7, -7], dtype=dtype)
    y = torch.tensor([-1, -2, -1], dtype=dtype)
    made = [KERNELS[each].function(x, y) for each in ("Div", "RealDiv", "TruncateDiv")]
    there, divisors = x.npu(), y.npu()
    made += [torch.div(there, divisors, rounding_mode="trunc"), torch.empty_like(there), there.clone()]
    torch.div(there, divisors, rounding_mode="trunc", out=made[-2])
    made[-1].div_(divisors, rounding_mode="trunc")
    made += [torch.div(there, -1, rounding_mode="trunc")[:1]]
    quotients[str(dtype)] = [each.tolist() for each in made]
print(json.dumps([told, quotients]))
"""
REFUSED = {
    "LayerNormGradV3 rows": "rstd must have one element for each of 4 rows, got 1",
    "LayerNormGradV3 dy": "x and dy must have the same shape, got (4, 8) and (1, 8)",
    "BatchNormV3": "weight must have one element for each of 64 channels, got 1",
    "BNInfer": "scale must have one element for each of 64 channels, got 1",
    "GridSampler2DGrad": "grad must have the shape (1, 2, 64, 64) of the result, got (1, 1, 1, 1)",
    "PadV3Grad": "reflected paddings [(4, 4)] must be smaller than the dimensions [1] that they pad",
    "LogSoftmaxGrad": "x and grad must have the same shape, got (64, 64) and (1, 1)",
    "EmbeddingDenseGrad": "indices must lie in [0, 3), got 1099511627776",
}


def test_no_argument_crashes_the_process(run_python: Callable[..., Any]) -> None:
    done = run_python(CODE)
    assert done.returncode == 0, done.stderr[-500:]
    messages, quotients = json.loads(done.stdout)
    assert messages == REFUSED
    for bits, result in zip((8, 16, 32, 64), quotients.values(), strict=True):
        smallest = -(1 << bits - 1)
        assert result == [[smallest, -3, 7]] * 6 + [[smallest]], bits
