"""What packed sequences may be passed: kernels of layouts with T take few widths of heads, and few sparse modes."""

from __future__ import annotations

from graph_quant.meta.rules import TILING_ERROR, Rules
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.masks import TREE
from graph_quant.reference.attention.results import query_sizes
from graph_quant.reference.attention.split_fuse import WIDEST, is_split_fuse, value_width

LATENT, WIDE = 512, 192
# The channels of a head of query and key, and of value.
WIDTHS = ((64, 64), (128, 128), (WIDE, 128), (WIDE, WIDE))
OF_LATENT = ("TND_NTD",)
_WIDEST_WITH_SINK = 128
MODES = (0, 3, 4, TREE)
_WIDER = (
    "; others up to 256 are for npu_fused_infer_attention_score and v2 in layout TND without rope parts, quantised "
    "results, or a mask in sparse_mode 0, with inner_precise 0 (2, 3 and for float16 1 too where no heads share keys), "
    "and blocks of (blocks, up to 512 tokens, channels)"
)


def check(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Refuses what no kernel of packed sequences takes; int8 caches have one of their own."""
    if not attrs.is_packed:
        return
    rules.one_of("sparse_mode", attrs.sparse_mode, MODES, f" in layout {attrs.input_layout}")
    width = query_sizes(operands.query, attrs)[3]
    if operands.key.dtype != operands.query.dtype or (operands.query_rope is not None and width == LATENT):
        return
    rules.require(
        attrs.input_layout not in OF_LATENT,
        lambda: f"query must have {LATENT} channels a head, and rope parts, in layout TND_NTD, got {width}",
    )
    value = value_width(operands, attrs)
    if operands.learnable_sink is not None:
        rules.require(
            value <= _WIDEST_WITH_SINK,
            lambda: f"value must have at most {_WIDEST_WITH_SINK} channels a head with learnable_sink, got {value}",
            TILING_ERROR,
        )
    if is_split_fuse(operands, attrs):
        if (width, value) not in WIDTHS:
            rules.since("8.5", lambda: f"query must have 64, 128 or {WIDE} channels a head in layout TND, got {width}")
        return
    rules.require(
        (width, value) in WIDTHS,
        lambda: (
            f"query and value must have 64 or 128 channels a head, or 192 and 128 or 192, in layout "
            f"{attrs.input_layout}, got {width} and {value}{_WIDER if width == value <= WIDEST else ''}"
        ),
    )
    alone = attrs.num_heads == attrs.kv_heads and operands.block_table is None and attrs.layout == "TND"
    rules.require(
        value != WIDE or (alone and attrs.sparse_mode != MODES[2]),
        lambda: (
            "value must have 128 channels a head where heads share keys, with a block_table, in sparse_mode 4 and in "
            f"other layouts than TND, got {value}"
        ),
    )
