"""GE's operator registrations, parsed from the prototypes that TorchAir ships, without importing them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from . import dtypes
from .protobuf import folder
from .types import UNDOCUMENTED_TYPES

_FILES = ("_ge_concrete_graph/auto_generated_ge_raw_ops.py", "ge/_ge_graph.py")
_CLAUSE = re.compile(
    # One prototype spells ATTR as ATRR.
    r"\.(?P<kind>INPUT|OPTIONAL_INPUT|DYNAMIC_INPUT|OUTPUT|DYNAMIC_OUTPUT|ATTR|ATRR|REQUIRED_ATTR)"
    r"\((?P<name>\w+)\s*,?\s*(?P<rest>.*?)\)\s*(?=\\n|\n|$)",
    re.DOTALL,
)
# Prototypes that TorchAir skips, because it builds these nodes by hand.
BUILTIN = {"Data", "RefData", "Const", "Constant", "ConstPlaceHolder", "NetOutput", "Cast", "NoOp", "PlaceHolder"}

# Dtypes that CANN registers and that TorchAir's prototypes lack.
_MISSING_DTYPES = {
    ("DynamicQuant", "y"): ("int4",),
    ("WeightQuantBatchMatmulV2", "weight"): ("int32",),
    ("WeightQuantBatchMatmulV2", "antiquant_scale"): ("int64", "uint64"),
    ("WeightQuantBatchMatmulV2", "antiquant_offset"): ("int32",),
}


@dataclass(frozen=True)
class Parameter:
    """An input or output: ``kind`` is required, optional or dynamic; ``dtypes`` is empty where all are allowed."""

    name: str
    kind: str
    dtypes: frozenset[str]


@dataclass(frozen=True)
class Attribute:
    """An attribute, its GE type (``Int``, ``ListInt``, ``Type`` ...) and the text of its default, if it has one."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True)
class Registration:
    """The declaration of one operator type."""

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...]


@cache
def _prototypes() -> dict[str, str]:
    prototypes: dict[str, str] = {}
    for name in _FILES:
        path = folder().parent / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for section in text.split("REG_OP(")[1:]:
            op, _, body = section.partition(")")
            prototypes.setdefault(op, body.partition('"""')[0])
    return prototypes


@cache
def registration(op_type: str) -> Registration | None:
    """The registration of ``op_type``, or None where TorchAir knows no such operator."""
    body = _prototypes().get(op_type)
    if body is None:
        return None
    inputs: list[Parameter] = []
    outputs: list[Parameter] = []
    attributes: list[Attribute] = []
    for clause in _CLAUSE.finditer(body):
        kind, name, rest = clause["kind"], clause["name"], clause["rest"]
        if kind.endswith(("ATTR", "ATRR")):
            type_name, _, default = (part.strip() for part in rest.partition(","))
            attributes.append(Attribute(name, type_name, None if kind == "REQUIRED_ATTR" else default))
            continue
        side = inputs if kind.endswith("INPUT") else outputs
        word = {"OPTIONAL": "optional", "DYNAMIC": "dynamic"}.get(kind.partition("_")[0], "required")
        explicit = "()" not in rest and "::" not in rest
        listed = {*map(dtypes.of_registration, re.findall(r"DT_\w+", rest)), *_MISSING_DTYPES.get((op_type, name), ())}
        side.append(Parameter(name, word, frozenset(listed if explicit else ())))
    return Registration(tuple(inputs), tuple(outputs), tuple(attributes))


def is_known(op_type: str) -> bool:
    """Whether GE has an operator of this type, whether or not a kernel is written for it."""
    return op_type in BUILTIN or op_type in _prototypes() or op_type in UNDOCUMENTED_TYPES


@cache
def list_known_types() -> list[str]:
    """All types of GE operators, sorted."""
    return sorted({*BUILTIN, *_prototypes(), *UNDOCUMENTED_TYPES})
