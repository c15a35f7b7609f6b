"""The report of a verification."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ... import scripts
from ..compare.metrics import Deviation
from ..compare.quantised import Distribution
from ..compare.source import Line
from ..errors import VerificationError
from . import words


class Status(enum.Enum):
    """The outcome of comparing one result."""

    EQUAL = "equal"  # every bit
    CLOSE = "close"  # not every bit, but within the thresholds
    DIFFERS = "differs"  # wrong for the inputs that it got
    INHERITED = "inherited"  # right for the inputs that it got, which were wrong
    RANDOM = "random"  # two RNGs; the comparison continues with the graph's samples
    UNKNOWN = "unknown"  # no reference; the comparison continues with the graph's result


FAILING = (Status.DIFFERS, Status.INHERITED)


@dataclass(frozen=True)
class Thresholds:
    """The accepted deviation. Without limits, bits must be equal.

    Attributes:
        max_error: The largest accepted absolute error.
        min_sqnr: The smallest accepted signal to quantisation noise ratio, in dB.
    """

    max_error: float | None = None
    min_sqnr: float | None = None

    def accept(self, difference: Deviation) -> bool:
        """Whether a deviation is within the limits."""
        if difference.equal:
            return True
        if difference.mismatch or (self.max_error is None and self.min_sqnr is None):
            return False
        return (self.max_error is None or difference.max_error <= self.max_error) and (
            self.min_sqnr is None or difference.sqnr >= self.min_sqnr
        )

    def __str__(self) -> str:
        parts = [
            *([f"max error at most {self.max_error:g}"] if self.max_error is not None else []),
            *([f"SQNR at least {self.min_sqnr:g} dB"] if self.min_sqnr is not None else []),
        ]
        return " and ".join(parts) or "equal bits"


@dataclass(frozen=True)
class GeName:
    """A GE node."""

    name: str
    type: str


_NAMED = 4  # the most outputs that a verdict, which is one line, names


@dataclass(frozen=True)
class NodeReport:
    """One result of one FX node.

    Attributes:
        fx: The name of the FX node; ``x[1]`` is the second result of ``x``.
        op: The operator.
        status: How the result compares.
        difference: The deviation from the reference.
        dtype: The dtype of the result.
        shape: The shape of the result.
        ge: The GE nodes that it was lowered to.
        line: The Python line that it comes from.
        through: The FX nodes before it without a GE node to observe.
        distribution: A histogram of quantised values.
        note: A remark for the report.
        module: The path of the module that made the call.
    """

    fx: str
    op: str
    status: Status
    difference: Deviation
    dtype: str
    shape: tuple[int, ...]
    ge: tuple[GeName, ...] = ()
    line: Line | None = None
    through: tuple[str, ...] = ()
    distribution: Distribution | None = None
    note: str = ""
    module: str = ""

    @property
    def ge_types(self) -> str:
        """The types of its GE nodes, without constants."""
        return " ".join(node.type for node in self.ge if node.type != "Const") or "-"

    def describe(self) -> str:
        """Node, GE nodes and Python line in one phrase."""
        nodes = ", ".join(f"{node.type} {node.name!r}" for node in self.ge if node.type != "Const")
        text = f"{self.fx} ({self.op})" + (f", GE {nodes}" if nodes else "")
        text += f", module {self.module}" if self.module else ""
        return text + (f", {self.line.file}:{self.line.number}: {self.line.code}" if self.line else "")


@dataclass(frozen=True)
class OutputReport:
    """The comparison of one result, or of one tensor that the call wrote to, with a reference.

    Attributes:
        name: The result, such as ``output[0]``, or the tensor that was written to.
        status: How it compares.
        difference: The deviation from the reference.
        dtype: Its dtype.
        shape: Its shape.
        note: Why there is no reference.
    """

    name: str
    status: Status
    difference: Deviation
    dtype: str
    shape: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True)
class Decomposition:
    """An operator call whose decomposition, run eagerly, has other bits than the call."""

    graph: str
    call: str
    line: Line | None

    def __str__(self) -> str:
        where = f" ({self.line.file}:{self.line.number}: {self.line.code})" if self.line else ""
        return f"eager and its decomposition differ at {self.call}{where}"


@dataclass(frozen=True)
class ChangedByPass:
    """A pass of a compiler that changes the bits of a graph's results."""

    name: str

    def __str__(self) -> str:
        return f"the compiler's pass {self.name} changes what the graph gives"


@dataclass(frozen=True)
class BrokenFusion:
    """A fusion whose result differs from that of the operators it replaces by more than its bound."""

    name: str

    def __str__(self) -> str:
        return f"fusion {self.name}"


@dataclass
class GraphReport:
    """One call of one graph.

    Attributes:
        name: The graph.
        call: The number of the call, from 1.
        nodes: The results of its FX nodes.
        unobserved: FX nodes without a GE node of their own.
        outputs: Outputs of the graph, and inputs it wrote to, compared with its FX graph.
        is_captured: Whether it has no GE graph, as what npugraph_ex captures, so that only outputs are compared.
    """

    name: str
    call: int
    nodes: list[NodeReport]
    unobserved: tuple[str, ...] = ()
    outputs: list[OutputReport] = field(default_factory=list)
    is_captured: bool = False

    @property
    def first_divergence(self) -> NodeReport | None:
        """The first node that is wrong for its inputs, or else the first beyond the thresholds."""
        own = (node for node in self.nodes if node.status is Status.DIFFERS)
        return next(own, None) or next((node for node in self.nodes if node.status in FAILING), None)

    @property
    def ok(self) -> bool:
        """Whether every node and output is within the thresholds."""
        return self.first_divergence is None and not any(output.status in FAILING for output in self.outputs)

    def count(self, *statuses: Status) -> int:
        """How many results have one of these statuses."""
        return sum(node.status in statuses for node in self.nodes)


@dataclass
class Report:
    """The result of ``verify``. ``outputs`` are compared with the function run eagerly on ``device``.

    Attributes:
        graphs: One report for each call of a graph whose nodes were compared.
        outputs: The results of calls, and the tensors they wrote to.
        decompositions: Operator calls whose decomposition has other bits.
        passes: Passes of a compiler that change results, and fusions beyond their bounds.
        is_fused: Whether fusions were applied to a graph.
        calls_beyond: The number of further calls, of which only outputs were compared; equal ones are not listed.
        calls_unknown: The number of further calls of which nothing was compared: they are random or have no reference.
        stopped: The error that ended the script, if any.

    Examples:
        >>> report = graph_quant.verify(model, x)
        >>> report.show()
        >>> report.check()
    """

    title: str
    device: str
    thresholds: Thresholds = field(default_factory=Thresholds)
    graphs: list[GraphReport] = field(default_factory=list)
    outputs: list[OutputReport] = field(default_factory=list)
    decompositions: list[Decomposition] = field(default_factory=list)
    passes: list[ChangedByPass | BrokenFusion] = field(default_factory=list)
    is_fused: bool = False
    calls_beyond: int = 0
    calls_unknown: int = 0
    stopped: Exception | None = None
    packed: set[bytes] = field(default_factory=set, repr=False)  # digests of results that hold int4
    # Errors that eager execution does not raise.
    raised: list[tuple[Exception, OutputReport]] = field(default_factory=list, repr=False)

    @property
    def ok(self) -> bool:
        """Whether all nodes and outputs are within the thresholds."""
        if self.stopped is not None:
            return False
        return all(graph.ok for graph in self.graphs) and not any(output.status in FAILING for output in self.outputs)

    @property
    def compared(self) -> bool:
        """Whether anything was compared.

        Outputs of a graph count only if no node or result was reported: they follow from the nodes, and where those are
        random or unknown, the graph's own results are the reference.
        """
        statuses = [*(node.status for node in self.nodes), *(output.status for output in self.outputs)]
        statuses = statuses or [output.status for graph in self.graphs for output in graph.outputs]
        return any(status not in (Status.RANDOM, Status.UNKNOWN) for status in statuses)

    def settle(self, ended_by: BaseException | None) -> None:
        """Add an output for each error that only a graph raised, except the one that ended the code."""
        raised_by_code = [] if ended_by is None else list(scripts.causes(ended_by))
        self.outputs += [output for error, output in self.raised if error not in raised_by_code]
        self.raised.clear()

    @property
    def nodes(self) -> Sequence[NodeReport]:
        """The nodes of all graphs, in the order they ran."""
        return [node for graph in self.graphs for node in graph.nodes]

    @property
    def first_divergence(self) -> NodeReport | None:
        """The first node that is wrong."""
        return next((graph.first_divergence for graph in self.graphs if graph.first_divergence), None)

    def extent(self) -> str:
        """The number of compared graphs, and of their calls where there are more."""
        captured = len({graph.name for graph in self.graphs if graph.is_captured})
        graphs = len({graph.name for graph in self.graphs}) - captured
        calls = f"{len(self.graphs)} calls of " if len(self.graphs) > graphs + captured else ""
        counts = [words.count(graphs, "graph")] if graphs or not captured else []
        counts += [words.count(captured, "captured graph")] if captured else []
        return calls + " and ".join(counts)

    def verdict(self) -> str:
        """The outcome in one line."""
        outcome = self._describe_outcome()
        return f"stopped; until then {outcome}" if self.stopped is not None else outcome

    def _describe_outcome(self) -> str:
        nodes, wrong = len(self.nodes), sum(node.status in FAILING for node in self.nodes)
        random = sum(node.status in (Status.RANDOM, Status.UNKNOWN) for node in self.nodes)
        # Results that could not be compared are counted apart, unless there are no others.
        is_captured = bool(self.graphs) and all(graph.is_captured for graph in self.graphs)
        results = len(self.outputs) if is_captured else nodes - random or nodes
        where = f"{words.count(results, 'output' if is_captured else 'result')} in {self.extent()} on {self.device}"
        outputs = [*self.outputs, *(output for graph in self.graphs for output in graph.outputs)]
        if wrong:
            return f"different: {wrong} of {where}"
        if any(output.status in FAILING for output in outputs):
            names = list(dict.fromkeys(output.name for output in outputs if output.status in FAILING))
            if len(names) > _NAMED:
                names[_NAMED:] = [f"{len(names) - _NAMED} more"]
            rest = f", although every node of {where} is right for its inputs" if nodes else ""
            return f"different: {', '.join(names)}{rest}"
        if not self.compared:
            return f"nothing could be compared: {where}"
        statuses = [output.status for output in outputs]
        close = [*(node.status for node in self.nodes), *statuses].count(Status.CLOSE)
        random_outputs = statuses.count(Status.RANDOM) + statuses.count(Status.UNKNOWN)
        unclear = " and ".join(
            words.count(count, name) for count, name in ((random, "result"), (random_outputs, "output")) if count
        )
        beyond = f" and the outputs of {words.count(self.calls_beyond, 'more call')}" if self.calls_beyond else ""
        text = f"equal: {where}{beyond}" + (f", {close} within the thresholds" if close else ", bit for bit")
        text += f"; {unclear} could not be compared" if unclear else ""
        return text + (f"; nor {words.count(self.calls_unknown, 'more call')}" if self.calls_unknown else "")

    def check(self) -> None:
        """Raise if anything differs, for use in tests.

        Raises:
            VerificationError: Names the verdict and the first diverging node.
        """
        if not self.ok:
            first = self.first_divergence
            stopped = [str(self.stopped)] if self.stopped is not None else []
            where = [f"first {first.describe()}"] if first else []
            raise VerificationError(
                "; ".join([self.verdict(), *stopped, *where, *map(str, [*self.decompositions, *self.passes])])
            )

    def show(self, *, all_nodes: bool = False, for_all: str = "all_nodes=True") -> None:
        """Print the report as a table.

        Args:
            all_nodes: Print every node, also of a long graph.
            for_all: How the table says that all nodes can be printed.
        """
        from .table import show

        show(self, all_nodes=all_nodes, for_all=for_all)

    def to_json(self) -> str:
        """The report as a JSON document."""
        from .to_json import to_json

        return to_json(self)

    def to_html(self) -> str:
        """The report as one self-contained HTML page."""
        from .to_html import to_html

        return to_html(self)

    def save(self, path: str | Path) -> None:
        """Write the report to a file.

        Args:
            path: The file: JSON for ``.json``, an HTML page for others.
        """
        target = Path(path)
        target.write_text(self.to_json() if target.suffix == ".json" else self.to_html(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Report {self.verdict()}>"
