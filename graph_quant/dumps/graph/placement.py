"""Device placement of a node: stream, engine, memory, and the nodes that were fused into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ge import printable

if TYPE_CHECKING:
    from ...ge import Node
    from ..dump import Dump

_ENGINES = ("_ge_attr_op_kernel_lib_name", "_lxfusion_engine_name", "_lxfusion_op_kernel_lib_name", "_coretype")
_ORIGINS = ("_datadump_original_op_names", "original_op_names", "_original_op_names")
_ORIGIN_TYPES = ("_datadump_original_op_types", "original_op_types", "_original_type")
_LONGEST = 80
_SHOWN = 6


@dataclass(frozen=True)
class Placement:
    """``stream`` is None before scheduling; ``offsets`` are those of the results in the graph's memory."""

    stream: int | None = None
    engine: str = ""
    offsets: tuple[int, ...] = ()
    workspace: tuple[int, ...] = ()
    origins: tuple[str, ...] = ()
    origin_types: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The suffix of a node's line: placement, and the nodes fused into it."""
        where = []
        if self.stream is not None:
            where.append(f"stream {self.stream}")
        if self.engine:
            where.append(self.engine)
        if self.offsets:
            where.append(f"at {', '.join(map(hex, self.offsets[:_SHOWN]))}")
        if sum(self.workspace):
            where.append(f"workspace {sum(self.workspace)} B")
        more = f" + {len(self.origins) - _SHOWN} more" if len(self.origins) > _SHOWN else ""
        fused = f"  = fused {' + '.join(self.origins[:_SHOWN])}{more}" if self.origins else ""
        return (f"  @ {', '.join(where)}" if where else "") + fused


def read_placement(dump: Dump, node: Node) -> Placement:
    """Read the placement of a node from its attributes."""
    proto = node.proto
    origins = _first_texts(proto, _ORIGINS)
    return Placement(
        stream=proto.stream_id if dump.is_scheduled else None,
        engine=next(iter(_first_texts(proto, _ENGINES)), ""),
        offsets=tuple(proto.output_i) if dump.is_scheduled else (),
        workspace=tuple(proto.workspace_bytes),
        origins=() if origins in ((), (node.name,)) else origins,
        origin_types=_first_texts(proto, _ORIGIN_TYPES),
    )


def _first_texts(proto: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """The strings of the first of these attributes that is not empty."""
    for name in names:
        if name in proto.attr:
            attribute = proto.attr[name]
            items = [attribute.s] if attribute.WhichOneof("value") == "s" else list(attribute.list.s)
            texts = tuple(printable(item.decode("utf-8", "backslashreplace"), _LONGEST) for item in items if item)
            if texts:
                return texts
    return ()
