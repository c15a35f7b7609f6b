"""npu_dynamic_quant: what may be passed, and what comes back.

input is float16 or bfloat16 of two to eight dimensions. smooth_scales is one number for each column, (H,),
or with group_index one row for each of at most 1024 groups, (E, H); over channels it is one number for each
row. Groups are for quantisation by token alone. The result is int8 of the input's shape, or int32 at 1/8 of
the last dimension; scale float32, one a token (quant_mode pertoken), one in all (pertensor) or one a
channel (perchannel).
"""

from __future__ import annotations

from graph_quant.meta import dynamic

OPERATOR = "npu_dynamic_quant"

check, infer = dynamic.operator(OPERATOR, parameters=1)
