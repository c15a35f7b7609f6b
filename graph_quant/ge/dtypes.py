"""Names for the two numberings of dtypes in GE: attributes use ``ge::DataType``, tensor descs the proto enum."""

from __future__ import annotations

UNDEFINED = "undefined"

# ge::DataType; 5 was never assigned.
_ATTRIBUTE_NAMES = [
    "float32",
    "float16",
    "int8",
    "int32",
    "uint8",
    "?",
    "int16",
    "uint16",
    "uint32",
    "int64",
    "uint64",
    "float64",
    "bool",
    "string",
    "dual_sub_int8",
    "dual_sub_uint8",
    "complex64",
    "complex128",
    "qint8",
    "qint16",
    "qint32",
    "quint8",
    "quint16",
    "resource",
    "string_ref",
    "dual",
    "variant",
    "bfloat16",
    "undefined",
    "int4",
    "uint1",
    "int2",
    "uint2",
    "complex32",
    "hifloat8",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e8m0",
    "float6_e3m2",
    "float6_e2m3",
    "float4_e2m1",
    "float4_e1m2",
]
OF_ATTRIBUTE = {number: name for number, name in enumerate(_ATTRIBUTE_NAMES) if name != "?"}
TO_ATTRIBUTE = {name: number for number, name in OF_ATTRIBUTE.items()}

# ge::proto::DataType
_DESC_NAMES = [
    "undefined",
    "float32",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "bool",
    "float64",
    "string",
    "dual_sub_int8",
    "dual_sub_uint8",
    "complex64",
    "complex128",
    "qint8",
    "qint16",
    "qint32",
    "quint8",
    "quint16",
    "resource",
    "string_ref",
    "dual",
    "variant",
    "bfloat16",
    "int4",
    "uint1",
    "int2",
    "uint2",
    "complex32",
    "hifloat8",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e8m0",
    "float6_e3m2",
    "float6_e2m3",
    "float4_e2m1",
    "float4_e1m2",
    "hifloat4",
]
OF_DESC = dict(enumerate(_DESC_NAMES))
TO_DESC = {name: number for number, name in OF_DESC.items()}

BITS = {
    "bool": 8, "int8": 8, "uint8": 8, "qint8": 8, "quint8": 8, "hifloat8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8,
    "float8_e8m0": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16, "qint16": 16, "quint16": 16,
    "int32": 32, "uint32": 32, "float32": 32, "qint32": 32, "complex32": 32, "int64": 64, "uint64": 64,
    "float64": 64, "complex64": 64, "complex128": 128, "int4": 4, "int2": 2, "uint2": 2, "uint1": 1,
    "float4_e2m1": 4, "float4_e1m2": 4, "float6_e3m2": 6, "float6_e2m3": 6,
}  # fmt: skip

# Dtypes that torch has, or in whose integers the host stores them.
ALIKE_IN_TORCH = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn",
)  # fmt: skip
STORED_DTYPES = {*ALIKE_IN_TORCH, "int4", "qint8", "quint8", "qint32", "hifloat8", "float8_e8m0"}

QUANTISED = {"int8", "uint8", "qint8", "quint8", "int4", "qint32", "hifloat8", "float8_e5m2", "float8_e4m3fn"}


def of_registration(name: str) -> str:
    """The dtype name for a ``DT_...`` name of GE's operator registrations."""
    short = name.removeprefix("DT_").lower()
    return {"float": "float32", "double": "float64", "bf16": "bfloat16"}.get(short, short)


_WIDER = ("int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
# By dtype: the dtypes that represent all of its values exactly.
LOSSLESS_CASTS: dict[str, tuple[str, ...]] = {
    "bool": ("int8", "uint8", *_WIDER),
    "int8": _WIDER,
    "uint8": _WIDER,
    "int16": ("int32", "int64", "float32", "float64"),
    "int32": ("int64", "float64"),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
