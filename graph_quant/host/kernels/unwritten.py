"""Facts of node types that dumps hold and no kernel is written for."""

from ...ge.kernels import CONTRACTION, declare

declare("Flatten", "FlattenV2", view=True)
declare("QuantMatmul", flops=CONTRACTION)
declare("LayerNormV3", flops=8)
declare("AscendQuant", flops=3, exact=True, same=("x", "scale", "offset"), packs=True)
