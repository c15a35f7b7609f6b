"""What was compared while requests were served: a file for each process, which another process reads."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..compare.metrics import Deviation, compare, dtype_name
from . import VARIABLE
from .kernels import describe_deviation

_MOST_DIFFERENCES = 100  # that are kept; others are counted


@dataclass
class StepDifference:
    """A step whose graph has other results than eager execution.

    ``result`` names a result that differs, with its dtype and shape; ``cause`` is the first kernel that differs.
    """

    graph: str
    step: int
    result: str
    dtype: str
    shape: list[int]
    deviation: dict[str, Any]
    cause: str

    def __str__(self) -> str:
        return f"{self.graph}, step {self.step}: {self.result} {describe_deviation(self.measured)}; {self.cause}"

    @property
    def measured(self) -> Deviation:
        """The deviation of the result."""
        return Deviation(**self.deviation)


def different(graph: str, step: int, result: str, pair: tuple[Tensor, Tensor], cause: str) -> StepDifference:
    """Return the difference of a result from its reference, the first of the pair."""
    reference, found = pair
    deviation = dataclasses.replace(compare(reference, found), first=None)
    return StepDifference(
        graph, step, result, dtype_name(reference), list(reference.shape), dataclasses.asdict(deviation), cause
    )


@dataclass
class Findings:
    """What was compared in one process. ``graphs`` counts steps by the graph that ran."""

    graphs: dict[str, int] = field(default_factory=dict)
    different: dict[str, int] = field(default_factory=dict)
    differences: list[StepDifference] = field(default_factory=list)

    def add(self, graph: str, difference: StepDifference | None) -> None:
        """Count a step; print the first difference of each graph, and write the file of this process."""
        self.graphs[graph] = self.graphs.get(graph, 0) + 1
        if difference is not None:
            if graph not in self.different:
                print(f"graph-quant verify: {difference}", file=sys.stderr, flush=True)
            self.different[graph] = self.different.get(graph, 0) + 1
            if len(self.differences) < _MOST_DIFFERENCES:
                self.differences.append(difference)
        self._write()

    def _write(self) -> None:
        path = Path(os.environ[VARIABLE], f"{os.getpid()}.json")
        new = path.with_suffix(".new")  # engines end their processes at any time
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        new.replace(path)


def read_findings(folder: Path) -> Iterator[Findings]:
    """Yield what each process found."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        content["differences"] = [StepDifference(**one) for one in content["differences"]]
        yield Findings(**content)
