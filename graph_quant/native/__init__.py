"""Native kernels, available where they were built and the processor has the instructions."""

from .attention import HiddenKeys, attend, can_attend
from .half import CAN_MULTIPLY_HALVES, half_product
from .int4 import can_multiply_int4, can_unpack_int4, int4_product, unpack_int4
from .int8 import IS_SUPPORTED, can_multiply_int8, int8_product
from .library import PATH as LIBRARY
from .narrow import can_decode_codes, can_encode_blocks, decode_codes, encode_blocks, largest_of_blocks
from .quant import can_map_rows, can_quantise_rows, map_rows, quantise_rows, scale_rows

__all__ = (
    "CAN_MULTIPLY_HALVES",
    "IS_SUPPORTED",
    "LIBRARY",
    "HiddenKeys",
    "attend",
    "can_attend",
    "can_decode_codes",
    "can_encode_blocks",
    "can_map_rows",
    "can_multiply_int4",
    "can_multiply_int8",
    "can_quantise_rows",
    "can_unpack_int4",
    "decode_codes",
    "encode_blocks",
    "half_product",
    "int4_product",
    "int8_product",
    "largest_of_blocks",
    "map_rows",
    "quantise_rows",
    "scale_rows",
    "unpack_int4",
)  # fmt: skip
