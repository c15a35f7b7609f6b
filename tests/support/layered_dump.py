"""A py dump of a model with many layers, each a quantised linear and a residual."""

from __future__ import annotations

WIDTH = 32


def layered(layers: int, width: int = WIDTH, rows: int = 4) -> str:
    """Return the text of the dump; the inputs are x, and a weight and scale for each layer."""
    lines = [
        "from torchair._ge_concrete_graph import ge_apis as ge",
        f'x_0 = ge.Data(index=0, dtype=1, shape=[{rows}, {width}], placement="NPU", node_name="x")',
    ]
    state = "x_0"
    for n in range(layers):
        index = 1 + 2 * n
        lines += [
            f'w{n}_0 = ge.Data(index={index}, dtype=2, shape=[{width}, {width}], placement="NPU", node_name="w{n}")',
            f's{n}_0 = ge.Data(index={index + 1}, dtype=0, shape=[{width}], placement="NPU", node_name="s{n}")',
            f'quant{n}_0, quant{n}_1 = ge.DynamicQuant({state}, None, None, dst_type=2, node_name="quant{n}")',
            f"linear{n}_0 = ge.QuantBatchMatmulV3(quant{n}_0, w{n}_0, s{n}_0, None, None, quant{n}_1, "
            f'dtype=1, transpose_x1=False, transpose_x2=False, node_name="linear{n}")',
            f'act{n}_0 = ge.Swish(linear{n}_0, scale=1.0, node_name="act{n}")',
            f'add{n}_0 = ge.Add(act{n}_0, {state}, node_name="add{n}")',
        ]
        state = f"add{n}_0"
    return "\n".join([*lines, f"_ = ge.NetOutput([{state}], dependencies=[])", ""])
