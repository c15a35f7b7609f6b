"""Builds protobuf message classes from a compact notation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = re.compile(r"(?P<name>\w+):(?P<type>\w+)(?P<repeated>\*?)=(?P<number>\d+)")


def build_message(root: str, messages: Mapping[str, str], enums: Mapping[str, Sequence[str]] | None = None) -> Any:
    """The class of ``root``; fields are written ``name:type=number``, repeated ones ``name:type*=number``."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"graph_quant/{root}.proto", package="graph_quant", syntax="proto3")
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for match in _FIELD.finditer(fields):
            label = types.LABEL_REPEATED if match["repeated"] else types.LABEL_OPTIONAL
            field = message.field.add(name=match["name"], number=int(match["number"]), label=label)
            if match["type"] in messages or match["type"] in (enums or {}):
                field.type_name = f".graph_quant.{match['type']}"
                field.type = types.TYPE_MESSAGE if match["type"] in messages else types.TYPE_ENUM
            else:
                field.type = types.Type.Value(f"TYPE_{match['type'].upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"graph_quant.{root}"))
