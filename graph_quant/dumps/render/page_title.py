"""The title of a page: the model, as far as a dump names it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ...ge import printable
from .page_nodes import LONGEST

if TYPE_CHECKING:
    from ..dump import Dump

# Names that TorchAir and GE give to files, which say nothing about the model.
_NUMBERED = re.compile(r"(dynamo_(original|optimized)_graph|ge_(proto|onnx|readable))_\d+")
_RANK = re.compile(r"_rank_(?P<rank>\d+)")


def page_title(dump: Dump, path: Path) -> str:
    """The name of a dump's file, or, where that is only numbered, the Python file of most nodes and the graph.

    Args:
        dump: The dump.
        path: Its file.

    Returns:
        The title, such as ``LlamaForCausalLM`` or ``modeling_llama: graph_1, rank 0``.

    Examples:
        >>> page_title(dump, Path("graphs/LlamaForCausalLM.txt"))
        'LlamaForCausalLM'
    """
    files = Counter(PurePath(node.source.file).stem for node in dump.order if node.source.file)
    if not _NUMBERED.match(path.name) or not files:
        return path.name if _NUMBERED.match(path.name) else path.stem
    rank = _RANK.search(path.name)
    where = f"{dump.name}, rank {rank['rank']}" if rank else dump.name
    return printable(f"{files.most_common(1)[0][0]}: {where}", LONGEST)
