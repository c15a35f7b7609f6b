"""GE graph dumps: read, compared, checked and replayed."""

from .dump import Dump, from_graph, load
from .errors import DumpError

__all__ = ["Dump", "DumpError", "from_graph", "load"]
