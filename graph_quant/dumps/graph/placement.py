"""Where and how a device runs a node: stream, engine, memory, and the nodes that were fused into it."""

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
    """``stream`` is None where nothing is scheduled yet; ``offsets`` are those of the results in the graph's memory."""

    stream: int | None = None
    engine: str = ""
    offsets: tuple[int, ...] = ()
    workspace: tuple[int, ...] = ()
    origins: tuple[str, ...] = ()
    origin_types: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As the end of a line: where it runs, and what it was fused from."""
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


def placement(dump: Dump, node: Node) -> Placement:
    """What a dump tells of a node's place."""
    proto = node.proto
    origins = _texts(proto, _ORIGINS)
    return Placement(
        stream=proto.stream_id if dump.is_scheduled else None,
        engine=next(iter(_texts(proto, _ENGINES)), ""),
        offsets=tuple(proto.output_i) if dump.is_scheduled else (),
        workspace=tuple(proto.workspace_bytes),
        origins=() if origins in ((), (node.name,)) else origins,
        origin_types=_texts(proto, _ORIGIN_TYPES),
    )


def _texts(proto: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """The first of these attributes that says something."""
    for name in names:
        if name in proto.attr:
            attribute = proto.attr[name]
            items = [attribute.s] if attribute.WhichOneof("value") == "s" else list(attribute.list.s)
            found = tuple(printable(item.decode("utf-8", "backslashreplace"), _LONGEST) for item in items if item)
            if found:
                return found
    return ()
