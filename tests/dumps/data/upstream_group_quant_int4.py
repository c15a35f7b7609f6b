# -*- coding: utf-8 -*-
from torch import tensor
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import get_default_ge_graph

arg0_1_0 = ge.Data(index=0, dtype=9, shape=[], placement="CPU", node_name="arg0_1")
arg1_1_0 = ge.Data(index=1, dtype=9, shape=[], placement="CPU", node_name="arg1_1")
arg2_1_0 = ge.Data(index=2, dtype=1, shape=[-1, -1], placement="CPU", node_name="arg2_1")
arg3_1_0 = ge.Data(index=3, dtype=9, shape=[], placement="CPU", node_name="arg3_1")
arg4_1_0 = ge.Data(index=4, dtype=1, shape=[-1, -1], placement="CPU", node_name="arg4_1")
arg5_1_0 = ge.Data(index=5, dtype=3, shape=[-1], placement="CPU", node_name="arg5_1")

# File "model.py", line 5, in <lambda>    return lambda x,s,g: torch_npu.npu_group_quant(x,s,g,dst_dtype=dst)                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
## FX Code: npu_group_quant: torch.int32[s77, (s27//8)]cpu = torch.ops.npu.npu_group_quant.default(arg2_1: torch.float16[s77, s27]cpu, arg4_1: torch.float16[s75, s27]cpu, arg5_1: torch.int32[s75]cpu, dst_dtype=torch.quint4x2)
GroupQuant_0 = ge.GroupQuant(arg2_1_0, arg4_1_0, arg5_1_0, None, dst_type=29, node_name="GroupQuant")
Shape_0 = ge.Shape(GroupQuant_0, node_name="Shape")
Div_0 = ge.Div(Shape_0, ge.Const([1, 8], dtype=3), node_name="Div")
ConcatV2_0 = ge.ConcatV2([Div_0, ge.Const([8], dtype=3)], 0, N=2, node_name="ConcatV2")
Reshape_0 = ge.Reshape(GroupQuant_0, ConcatV2_0, node_name="Reshape")
Bitcast_0 = ge.Bitcast(Reshape_0, type=3, node_name="Bitcast")
Reshape_1_0 = ge.Reshape(Bitcast_0, Div_0, node_name="Reshape_1")

_ = ge.NetOutput([Reshape_1_0], dependencies=[])
