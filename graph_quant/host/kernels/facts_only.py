"""Facts about node types that occur in dumps and have no kernel."""

from ...ge import CONTRACTION, CONVOLUTION, declare

declare("Flatten", view=True)
declare("QuantMatmul", flops=CONTRACTION)
declare("FullyConnection", "Conv2DV2", "Conv3DV2", "ExtendConv2D", "DepthwiseConv2D", "Conv2DCompress", "Convolution",
        "ConvolutionDepthwise", "QuantConv3D", flops=CONVOLUTION)  # fmt: skip
# Nodes that GE inserts to move tensors between formats, memories and streams.
declare("TransData", "MemcpyAsync", "MemcpyAddrAsync", "ReadSelect", "WriteSelect", "StridedRead", "StridedWrite",
        "Send", "Recv", "SendNotify", "RecvNotify", "StreamActive", "StreamSwitch", "StreamMerge", "LabelSet",
        "LabelGotoEx", "LabelSwitchByIndex", "EndGraph", "AtomicAddrClean", "MemSet", "PhonyConcat",
        "PhonySplit", flops=0)  # fmt: skip
declare("AscendQuant", flops=3, exact=True, same=("x", "scale", "offset"), packs=True)
