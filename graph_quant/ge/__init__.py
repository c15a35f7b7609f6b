"""GE's dtypes, graphs, operator registrations and the table of host kernels.

Names are loaded on first use: reading a dump does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..discovery import load_attribute

if TYPE_CHECKING:
    from .attributes import default_of as default_of
    from .attributes import format_attribute as format_attribute
    from .attributes import format_attributes as format_attributes
    from .attributes import list_attributes as list_attributes
    from .attributes import set_attribute as set_attribute
    from .dtypes import BITS as BITS
    from .dtypes import LOSSLESS_CASTS as LOSSLESS_CASTS
    from .dtypes import OF_ATTRIBUTE as OF_ATTRIBUTE
    from .dtypes import OF_DESC as OF_DESC
    from .dtypes import QUANTISED as QUANTISED
    from .dtypes import STORED_DTYPES as STORED_DTYPES
    from .dtypes import TO_ATTRIBUTE as TO_ATTRIBUTE
    from .dtypes import TO_DESC as TO_DESC
    from .dtypes import UNDEFINED as UNDEFINED
    from .dtypes import of_registration as of_registration
    from .errors import GeError as GeError
    from .errors import TooMuchError as TooMuchError
    from .errors import first_line as first_line
    from .errors import printable as printable
    from .graph import CONST_TYPES as CONST_TYPES
    from .graph import END_TYPES as END_TYPES
    from .graph import INPUT_TYPES as INPUT_TYPES
    from .graph import MODULE_PATH as MODULE_PATH
    from .graph import OUTPUT_TYPE as OUTPUT_TYPE
    from .graph import OUTSIDE_TYPES as OUTSIDE_TYPES
    from .graph import SOURCE_LINE as SOURCE_LINE
    from .graph import Edge as Edge
    from .graph import Node as Node
    from .graph import Output as Output
    from .graph import Source as Source
    from .graph import build_nodes as build_nodes
    from .graph import decode_attribute as decode_attribute
    from .graph import layouts_of as layouts_of
    from .graph import module_path as module_path
    from .graph import note_output_devices as note_output_devices
    from .graph import output_devices_of as output_devices_of
    from .graph import read_nodes as read_nodes
    from .graph import sort_topologically as sort_topologically
    from .graph import sources_of as sources_of
    from .graph import to_python as to_python
    from .graph import weight_path as weight_path
    from .graph import written_inputs as written_inputs
    from .kernels import CHANNELS_FIRST as CHANNELS_FIRST
    from .kernels import CONSTANT_KERNELS as CONSTANT_KERNELS
    from .kernels import CONTRACTION as CONTRACTION
    from .kernels import CONVOLUTION as CONVOLUTION
    from .kernels import KERNELS as KERNELS
    from .kernels import REDUCTION as REDUCTION
    from .kernels import SHAPE_TYPES as SHAPE_TYPES
    from .kernels import SIZE_KERNELS as SIZE_KERNELS
    from .kernels import Facts as Facts
    from .kernels import Input as Input
    from .kernels import Kernel as Kernel
    from .kernels import constant_kernel as constant_kernel
    from .kernels import declare as declare
    from .kernels import facts as facts
    from .kernels import kernel as kernel
    from .kernels import list_size_types as list_size_types
    from .kernels import size_kernel as size_kernel
    from .protobuf import new_graph as new_graph
    from .protobuf import schema as schema
    from .registrations import Parameter as Parameter
    from .registrations import is_known as is_known
    from .registrations import list_known_types as list_known_types
    from .registrations import registration as registration
    from .types import TRANSPOSE_ATTRIBUTES as TRANSPOSE_ATTRIBUTES
    from .values import FOUR_BITS as FOUR_BITS
    from .values import LONGEST_SIZES as LONGEST_SIZES
    from .values import InputState as InputState
    from .values import Number as Number
    from .values import Sizes as Sizes
    from .values import choose_kernel as choose_kernel
    from .values import decode_tensor as decode_tensor
    from .values import find_unsupported as find_unsupported
    from .values import from_attr as from_attr
    from .values import from_desc as from_desc
    from .values import ge_dtype_name as ge_dtype_name
    from .values import is_constant_folded as is_constant_folded
    from .values import list_of_sizes as list_of_sizes
    from .values import one_size as one_size
    from .values import sizes_from_input as sizes_from_input
    from .values import stored_dtype as stored_dtype
    from .values import to_sizes as to_sizes
    from .values import to_tensor as to_tensor

_HOMES = {
    "attributes": (
        "default_of",
        "format_attribute",
        "set_attribute",
        "list_attributes",
        "format_attributes",
    ),
    "dtypes": (
        "BITS",
        "LOSSLESS_CASTS",
        "OF_ATTRIBUTE",
        "OF_DESC",
        "QUANTISED",
        "STORED_DTYPES",
        "TO_ATTRIBUTE",
        "TO_DESC",
        "UNDEFINED",
        "of_registration",
    ),
    "errors": (
        "GeError",
        "TooMuchError",
        "first_line",
        "printable",
    ),
    "graph": (
        "CONST_TYPES",
        "END_TYPES",
        "Edge",
        "INPUT_TYPES",
        "MODULE_PATH",
        "Node",
        "OUTPUT_TYPE",
        "OUTSIDE_TYPES",
        "Output",
        "SOURCE_LINE",
        "Source",
        "build_nodes",
        "decode_attribute",
        "layouts_of",
        "module_path",
        "note_output_devices",
        "output_devices_of",
        "to_python",
        "read_nodes",
        "sources_of",
        "sort_topologically",
        "weight_path",
        "written_inputs",
    ),
    "kernels": (
        "CHANNELS_FIRST",
        "CONSTANT_KERNELS",
        "CONTRACTION",
        "CONVOLUTION",
        "KERNELS",
        "REDUCTION",
        "SHAPE_TYPES",
        "SIZE_KERNELS",
        "Facts",
        "Input",
        "Kernel",
        "constant_kernel",
        "declare",
        "facts",
        "kernel",
        "list_size_types",
        "size_kernel",
    ),
    "protobuf": (
        "new_graph",
        "schema",
    ),
    "registrations": (
        "Parameter",
        "is_known",
        "list_known_types",
        "registration",
    ),
    "types": ("TRANSPOSE_ATTRIBUTES",),
    "values": (
        "FOUR_BITS",
        "LONGEST_SIZES",
        "InputState",
        "Number",
        "Sizes",
        "choose_kernel",
        "decode_tensor",
        "from_attr",
        "from_desc",
        "sizes_from_input",
        "stored_dtype",
        "is_constant_folded",
        "list_of_sizes",
        "one_size",
        "to_sizes",
        "to_tensor",
        "find_unsupported",
        "ge_dtype_name",
    ),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    value = globals()[name] = load_attribute(name, _HOMES, __name__)
    return value
