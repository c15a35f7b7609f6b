"""The record of an operator: what may be passed, what comes out, what it computes and how it is lowered.

A record is its rules, a function of a call's arguments that refuses what the documents refuse and returns a plan:
the results without their values, and what was decided on the way. Shape inference, eager execution, lowering and the
tests all ask the record, so that they cannot disagree. Reference and lowering are functions called by name: a
parameter is an argument of the operator, a field of its plan, or the plan itself, and ``**`` what arguments are left.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from graph_quant import chip
from graph_quant.discovery import Shelves, Table
from graph_quant.dispatcher import overload
from graph_quant.meta.rules import Refusal, Rules, Size, empty
from graph_quant.releases.schemas import Binding, declared_schema
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = [
    "NODES",
    "RECORDS",
    "Operator",
    "Plan",
    "Refusal",
    "Result",
    "full",
    "inferring",
    "operator",
    "reference_only",
    "title",
]


@dataclass(frozen=True)
class Result:
    """A result without its values; always contiguous."""

    shape: tuple[Size, ...]
    dtype: torch.dtype


# ``int`` itself is a number that only the computation tells.
Results = tuple[Result | str | int | type[int] | None, ...]


@dataclass(frozen=True)
class Plan:
    """How a call is carried out.

    A string among the results is the argument (x, out[1]) that comes back itself; a number comes back as it is, and
    None is a result that was not asked for. ``int`` is a number that the reference gives: without data there is none.
    ``int4_arguments`` are those whose int32 hold eight int4 each.
    """

    results: Results
    int4_arguments: frozenset[str] = field(default=frozenset(), kw_only=True)


class Operator:
    """One overload and all that is known of it. Its ``name`` without a namespace is torch_npu's."""

    def __init__(
        self,
        name: str,
        rules: Callable[..., Plan] | None,
        reference: Callable[..., Any] | None,
        on_any_device: Sequence[str] = (),
    ) -> None:
        self.name = full(name)
        self.on_any_device = on_any_device
        self.rules = rules
        self.reference = reference
        self._traced, self._eager = Rules(self.title), Rules(self.title, is_eager=True)

    @property
    def namespace(self) -> str:
        """The ``npu`` of ``torch.ops.npu``."""
        return self.name.partition("::")[0]

    @property
    def title(self) -> str:
        """The name that callers type."""
        return title(self.name)

    @functools.cached_property
    def overload(self) -> OpOverload:
        """The operator itself, as torch_npu defines it."""
        return overload(self.name)

    @functools.cached_property
    def arguments(self) -> tuple[str, ...]:
        """The names that reference and lowering call the arguments by: those of the rules, else the schema's."""
        if self.rules is None:
            return self._binding.arguments
        return tuple(inspect.signature(self.rules).parameters)[1:]

    @functools.cached_property
    def _binding(self) -> Binding:
        return Binding(self.title, declared_schema(self.name), self.overload._schema)

    @property
    def installed_arguments(self) -> frozenset[str]:
        """The names of the arguments that the installed torch_npu has."""
        return self._binding.installed

    @functools.cached_property
    def _returns_list(self) -> bool:
        returns = self.overload._schema.returns
        return len(returns) == 1 and isinstance(returns[0].type, torch.ListType)

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The values of all arguments in the schema's order, defaults filled in."""
        return self._binding.bind(args, kwargs)

    def plan(self, values: Sequence[Any]) -> Plan:
        """The plan of a call that the documents allow; any other is refused. Asked again, a trace is told the same."""
        if self.rules is None:
            raise TypeError(f"{self.title} has no rules of its own")
        return _remembered(self.name, values, self._make_plan)

    def _make_plan(self, values: Sequence[Any]) -> Plan:
        assert self.rules is not None
        self.one_device(values)
        is_eager = not any(isinstance(each, FakeTensor) or each.is_meta for each in self.tensors(values).values())
        return self.rules(self._eager if is_eager else self._traced, *values)

    def one_device(self, values: Sequence[Any]) -> None:
        """Refuses a call whose tensors are on several devices, but for those that may be on any."""
        tensors = self.tensors(values)
        self._traced.one_device({name: each for name, each in tensors.items() if name not in self.on_any_device})

    def tensors(self, values: Sequence[Any]) -> dict[str, Tensor]:
        """The tensors of a call by the names that callers know, those in lists too."""
        named: dict[str, Tensor] = {}
        for name, value in zip(self._binding.arguments, values, strict=True):
            if isinstance(value, Tensor):
                named[name] = value
            elif isinstance(value, (list, tuple)):
                named.update({f"{name}[{place}]": item for place, item in enumerate(value) if isinstance(item, Tensor)})
        return named

    def infer(self, *args: Any, **kwargs: Any) -> Any:
        """The results of a call, without their values."""
        values = self.bind(args, kwargs)
        plan = self.plan(values)
        like = next(iter(self.tensors(values).values()))
        made = [self._empty(result, values, like) for result in plan.results]
        return self.as_returned(made)

    def _empty(
        self, result: Result | str | int | type[int] | None, values: Sequence[Any], like: Tensor
    ) -> Tensor | int | None:
        if isinstance(result, type):
            raise TypeError(f"{self.title}: a number that only data tells has no value where a call is traced")
        if result is None or isinstance(result, int):
            return result
        if isinstance(result, str):
            return self.argument(result, values)
        return empty(like, result.shape, result.dtype)

    def argument(self, name: str, values: Sequence[Any]) -> Tensor:
        """The argument of a name such as x, or out[1] for one of a list."""
        whole, _, place = name.partition("[")
        found: Any = values[self.arguments.index(whole)]
        tensor: Tensor = found[int(place.rstrip("]"))] if place else found
        return tensor

    def as_returned(self, results: Sequence[Any]) -> Any:
        """``results`` in the form that the schema promises: none, one, a tuple or a list."""
        if not self.overload._schema.returns:
            return None
        if self._returns_list:
            return list(results)
        return results[0] if len(results) == 1 else tuple(results)

    def call(self, function: Callable[..., Any], plan: Plan | None, values: Sequence[Any]) -> Any:
        """Calls a reference or lowering by the names of its parameters; ``**`` takes all other arguments."""
        named = dict(zip(self.arguments, values, strict=True))
        parameters, takes_others = _parameters(function)
        given = {
            name: named[name] if name in named else (plan if name == "plan" else getattr(plan, name))
            for name in parameters
        }
        return function(**(named | given if takes_others else given))

    def check_names(self, function: Callable[..., Any]) -> None:
        """Refuses a reference or lowering with a parameter that nothing of the record answers to."""
        known = {"plan", *self.arguments}
        if self.rules is not None:
            known |= {each.name for each in fields(typing.get_type_hints(self.rules).get("return", Plan))}
        unknown = [name for name in _parameters(function)[0] if name not in known]
        if unknown:
            raise TypeError(f"{self.name}: {function.__name__} asks for {', '.join(unknown)}, which the record lacks")


# The plans of each trace: Dynamo, AOTAutograd and the lowering infer the same call in turn.
_plans: WeakKeyDictionary[FakeTensorMode, dict[Hashable, Any]] = WeakKeyDictionary()


def _remembered(operator: str, values: Sequence[Any], make: Callable[[Sequence[Any]], Plan]) -> Plan:
    """What ``make(values)`` gave for a call of the same layout in the same trace, or gives now."""
    mode = _mode(values)
    if mode is None:
        return make(values)
    key = (operator, *map(_layout, values))
    plans = _plans.setdefault(mode, {})
    if key in plans:
        known: Plan = plans[key]
        return known
    plan = make(values)
    # A rule that was asked while guards are suppressed left none, and has to be asked again.
    if mode.shape_env is None or not mode.shape_env._suppress_guards_tls():
        plans[key] = plan
    return plan


def _mode(values: Sequence[Any]) -> FakeTensorMode | None:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
        if isinstance(value, (list, tuple)) and (mode := _mode(value)) is not None:
            return mode
    return None


def _layout(value: Any) -> Hashable:
    """What a rule can see of a value, in a form that is compared without a guard."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.device, *map(_size, value.shape), *map(_size, value.stride()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_layout, value))
    return _size(value)


def _size(size: Any) -> Hashable:
    # A number and the type it came as: 1, 1.0 and True are equal but not the same to a rule.
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat) else (type(size), size)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The names of a function's parameters, and whether it takes others by name."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
    return names, len(names) < len(parameters)


def inferring(name: str, upstream: Callable[..., Any] | None) -> Callable[..., Any]:
    """What serves calls without data; where a chip has other kernels, ``upstream`` gets what is refused."""

    def infer(*args: Any, **kwargs: Any) -> Any:
        try:
            return RECORDS[name].infer(*args, **kwargs)
        except Refusal:
            if upstream is None or not chip.has_other_kernels():
                raise
            return upstream(*args, **kwargs)

    return infer


def title(name: str) -> str:
    """The name that callers type, of a full one."""
    return name.partition("::")[2].partition(".")[0]


def full(name: str) -> str:
    """``name`` with its namespace."""
    return name if "::" in name else f"npu::{name}"


# Records are loaded when their operators are first called: until then their names are enough.
RECORDS: Table[Operator] = Table(
    Shelves(
        declared=r'operator\(\s*(?P<names>"[^"]+")',
        called=("operator(", "reference_only(", "Library("),
        imported=r"\bimport\b.*\b(?:operator|reference_only)\b",
        full=full,
    )
)
# The GE node that an operator becomes, for those that say so.
NODES: Table[str] = Table(
    Shelves(
        declared=r'operator\(\s*(?P<names>"[^"]+")(?:[^()]|\([^()]*\))*?\bnode="',
        called=("node=",),
        imported=r"\boperator as\b",
        full=full,
    )
)


def operator(
    name: str,
    *,
    reference: Callable[..., Any] | None = None,
    node: str | None = None,
    on_any_device: Sequence[str] = (),
    results: Callable[[Results], Results] | None = None,
) -> Callable[[Callable[..., Plan] | Operator], Operator]:
    """Makes the decorated rules the record of ``npu::name``.

    Operators that differ only in what comes back, as one that writes in place and its functional form, share their
    rules: the decorator of one stands above that of the other, with ``results``, what it makes of the other's results.

    ``node`` is for an operator that becomes one GE node: its inputs are the arguments of the same names, its attributes
    fields of the plan. Any other lowering is a function of its own, in ``graph_quant.converters``. ``on_any_device``
    are tensors whose values the host reads: they may be on the CPU beside others on an npu.
    """

    def record(rules: Callable[..., Plan] | Operator) -> Operator:
        made = Operator(name, _returning(rules, results), reference, on_any_device)
        if reference is not None:
            made.check_names(reference)
        if node is not None:
            NODES[made.name] = node
        RECORDS[made.name] = made
        return made

    return record


def _returning(
    rules: Callable[..., Plan] | Operator, results: Callable[[Results], Results] | None
) -> Callable[..., Plan]:
    """The rules, of their own or of another record, with other results where they are said."""
    own = rules.rules if isinstance(rules, Operator) else rules
    assert own is not None
    if results is None:
        return own

    @functools.wraps(own)
    def planned(*values: Any) -> Plan:
        plan = own(*values)
        return replace(plan, results=results(plan.results))

    return planned


def reference_only(name: str, reference: Callable[..., Any]) -> Operator:
    """The record of an operator that upstream infers, checks and lowers right."""
    made = Operator(name, None, reference)
    RECORDS[made.name] = made
    return made
