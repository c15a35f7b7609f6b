"""The record of an operator: its rules, its reference and the GE node that it lowers to.

The rules are a function of a call's arguments. It refuses what the documents refuse and returns a plan: the results
without values, and the choices that reference and lowering need. Shape inference, eager execution, lowering and tests
use the same record, so that they cannot disagree.

References and lowerings are called by the names of their parameters. A parameter is an argument of the operator, a
field of its plan, or ``plan`` for the plan itself; ``**others`` takes the remaining arguments.
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
from graph_quant.chip import A2_AND_A3, Chip
from graph_quant.discovery import Index, Table
from graph_quant.dispatcher import overload
from graph_quant.meta.eager_plans import EagerPlans, Signatures, signature_of
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
    "require_described",
    "title",
]


@dataclass(frozen=True)
class Result:
    """Shape and dtype of one result tensor, which is contiguous.

    Args:
        shape: The sizes; integers, or symbols while a call is traced.
        dtype: The dtype.

    Examples:
        >>> Result((rows, columns), torch.int8)
    """

    shape: tuple[Size, ...]
    dtype: torch.dtype


# The type ``int`` stands for an integer that depends on data.
Results = tuple[Result | str | int | type[int] | None, ...]


@dataclass(frozen=True)
class Plan:
    """What the rules decide for one call.

    An operator whose reference or lowering needs more than the results declares a frozen dataclass that inherits from
    ``Plan``. Its fields are passed to reference and lowering by name.

    Args:
        results: One entry for each result of the schema: a ``Result``; the name of an argument that is returned itself,
            such as ``"x"`` or ``"out[1]"``; an integer; ``None`` for a result that was not requested; or the type
            ``int`` for an integer that the reference computes from data.
        int4_arguments: Names of int32 arguments that hold eight int4 in each element.
        chip: The chip that the rules were those of; references and lowerings do what its kernels do.

    Examples:
        >>> @dataclass(frozen=True)
        ... class QuantizePlan(Plan):
        ...     destination: Destination
        >>> QuantizePlan((Result(tuple(x.shape), torch.int8),), INT8)
    """

    results: Results
    int4_arguments: frozenset[str] = field(default=frozenset(), kw_only=True)
    chip: Chip = field(default_factory=chip.current, kw_only=True)


class Operator:
    """The record of one overload, made by ``operator`` or ``reference_only``.

    Args:
        name: The overload, such as ``npu_quantize`` or ``atb::npu_ring_mla.out``; the default namespace is ``npu``.
        rules: The function that checks a call and returns its plan; ``None`` if upstream's inference is used.
        reference: The function that computes the results; ``None`` if the operator cannot run on the CPU.
        on_any_device: Arguments that may be on the CPU beside others on an NPU.
        chips: The chips that rules and reference are described for; calls on others are refused.
    """

    def __init__(
        self,
        name: str,
        rules: Callable[..., Plan] | None,
        reference: Callable[..., Any] | None,
        on_any_device: Sequence[str] = (),
        chips: tuple[Chip, ...] = A2_AND_A3,
    ) -> None:
        self.name = full(name)
        self.chips = chips
        self.on_any_device = on_any_device
        self.rules = rules
        self.reference = reference
        self._eager_plans, self._accepted_by_upstream = EagerPlans(), Signatures()
        self._traced, self._eager = Rules(self.title), Rules(self.title, is_eager=True)

    @property
    def namespace(self) -> str:
        """The namespace, as ``npu`` in ``torch.ops.npu``."""
        return self.name.partition("::")[0]

    @functools.cached_property
    def title(self) -> str:
        """The name without namespace and overload."""
        return title(self.name)

    @functools.cached_property
    def overload(self) -> OpOverload:
        """The torch operator."""
        return overload(self.name)

    @functools.cached_property
    def arguments(self) -> tuple[str, ...]:
        """The argument names for reference and lowering: the parameters of the rules, else the names in the schema."""
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
        """The values of all arguments in the order of the schema, with defaults.

        Raises:
            Refusal: The operator is not described for the chip in use.
        """
        chip.require_described(self.title, self.chips)
        return self._binding.bind(args, kwargs)

    def plan(self, values: Sequence[Any]) -> Plan:
        """The plan of a call, cached per trace, and for eager calls per signature.

        Args:
            values: The values of all arguments, as ``bind`` returns them.

        Returns:
            The plan that the rules return.

        Raises:
            Refusal: The call breaks a rule.
            TypeError: The operator has no rules.
        """
        if self.rules is None:
            raise TypeError(f"{self.title} has no rules of its own")
        if (signature := signature_of(values)) is None:
            return _remembered(self.name, values, self._make_plan)
        return self._eager_plans.plan(signature, values, self._make_plan)

    def ask_upstream(self, values: Sequence[Any]) -> None:
        """Check an eager call without rules by torch_npu's own meta function, once per signature."""
        signature = signature_of(values)
        if signature is not None and signature in self._accepted_by_upstream:
            return
        named = zip(self.arguments, _without_data(values), strict=True)
        self.overload(**{name: value for name, value in named if name in self.installed_arguments})
        if signature is not None:
            self._accepted_by_upstream.add(signature)

    def _make_plan(self, values: Sequence[Any]) -> Plan:
        assert self.rules is not None
        self.one_device(values)
        is_eager = not any(isinstance(tensor, FakeTensor) or tensor.is_meta for tensor in self.tensors(values).values())
        return self.rules(self._eager if is_eager else self._traced, *values)

    def one_device(self, values: Sequence[Any]) -> None:
        """Refuse a call whose tensors are on several devices, except arguments of ``on_any_device``."""
        tensors = self.tensors(values)
        self._traced.one_device({name: tensor for name, tensor in tensors.items() if name not in self.on_any_device})

    def tensors(self, values: Sequence[Any]) -> dict[str, Tensor]:
        """The tensors of a call by argument name; those of lists as ``name[index]``."""
        named: dict[str, Tensor] = {}
        for name, value in zip(self._binding.arguments, values, strict=True):
            if isinstance(value, Tensor):
                named[name] = value
            elif isinstance(value, (list, tuple)):
                named.update({f"{name}[{index}]": item for index, item in enumerate(value) if isinstance(item, Tensor)})
        return named

    def infer(self, *args: Any, **kwargs: Any) -> Any:
        """The results of a call as tensors without values."""
        values = self.bind(args, kwargs)
        plan = self.plan(values)
        like = next(iter(self.tensors(values).values()))
        results = [self._empty(result, values, like) for result in plan.results]
        return self.as_returned(results)

    def _empty(
        self, result: Result | str | int | type[int] | None, values: Sequence[Any], like: Tensor
    ) -> Tensor | int | None:
        if isinstance(result, type):
            raise TypeError(f"{self.title}: an integer result that depends on data cannot be inferred while tracing")
        if result is None or isinstance(result, int):
            return result
        if isinstance(result, str):
            return self.argument(result, values)
        return empty(like, result.shape, result.dtype)

    def argument(self, name: str, values: Sequence[Any]) -> Tensor:
        """The argument of a name such as ``x``, or ``out[1]`` for an element of a list."""
        whole, _, index = name.partition("[")
        value: Any = values[self.arguments.index(whole)]
        tensor: Tensor = value[int(index.rstrip("]"))] if index else value
        return tensor

    def as_returned(self, results: Sequence[Any]) -> Any:
        """``results`` as the schema returns them: None, a single result, a tuple or a list."""
        if not self.overload._schema.returns:
            return None
        if self._returns_list:
            return list(results)
        return results[0] if len(results) == 1 else tuple(results)

    def call(self, function: Callable[..., Any], plan: Plan | None, values: Sequence[Any]) -> Any:
        """Call a reference or lowering by the names of its parameters.

        Args:
            function: The function. A parameter is an argument of the operator, a field of the plan, or ``plan``;
                ``**others`` takes the remaining arguments of the operator.
            plan: The plan of the call; ``None`` for an operator without rules.
            values: The values of all arguments, as ``bind`` returns them.

        Returns:
            The result of ``function``.
        """
        return self.bound(function, plan, values)()

    def bound(self, function: Callable[..., Any], plan: Plan | None, values: Sequence[Any]) -> Callable[[], Any]:
        """``function`` with its arguments, as ``call`` calls it."""
        named = dict(zip(self.arguments, values, strict=True))
        parameters, takes_others = _parameters(function)
        arguments = {
            name: named[name] if name in named else (plan if name == "plan" else getattr(plan, name))
            for name in parameters
        }
        return functools.partial(function, **(named | arguments if takes_others else arguments))

    def check_names(self, function: Callable[..., Any]) -> None:
        """Raise TypeError if ``function`` has a parameter that is neither an argument nor a field of the plan."""
        known = {"plan", *self.arguments}
        if self.rules is not None:
            known |= {entry.name for entry in fields(typing.get_type_hints(self.rules).get("return", Plan))}
        unknown = [name for name in _parameters(function)[0] if name not in known]
        if unknown:
            raise TypeError(f"{self.name}: {function.__name__} asks for {', '.join(unknown)}, which the record lacks")


# The plans of each trace. Dynamo, AOTAutograd and the lowering infer the same call one after the other.
_plans: WeakKeyDictionary[FakeTensorMode, dict[Hashable, Any]] = WeakKeyDictionary()


def _remembered(operator: str, values: Sequence[Any], make: Callable[[Sequence[Any]], Plan]) -> Plan:
    """The plan of ``make(values)``, cached by trace and layout of the arguments."""
    mode = _mode(values)
    if mode is None:
        return make(values)
    key = (operator, chip.current(), *map(_layout, values))
    plans = _plans.setdefault(mode, {})
    if key in plans:
        known: Plan = plans[key]
        return known
    plan = make(values)
    # Rules that ran while guards are suppressed installed none, and have to run again.
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


def _without_data(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_data(item) for item in value]
    return value.to("meta") if isinstance(value, Tensor) else value


def _layout(value: Any) -> Hashable:
    """All that rules can see of a value, as a key that is compared without installing a guard."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.device, *map(_size, value.shape), *map(_size, value.stride()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_layout, value))
    return _size(value)


def _size(size: Any) -> Hashable:
    # With the type, because 1, 1.0 and True are equal keys but differ for a rule.
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat) else (type(size), size)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The names of a function's parameters, and whether it has a ``**`` parameter."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)
    return names, len(names) < len(parameters)


def inferring(name: str, upstream: Callable[..., Any] | None) -> Callable[..., Any]:
    """The meta function of an operator; on a device of another chip, refused calls go to ``upstream``."""

    def infer(*args: Any, **kwargs: Any) -> Any:
        try:
            return RECORDS[name].infer(*args, **kwargs)
        except Refusal:
            if upstream is None or not chip.leaves_refused_calls_to_upstream():
                raise
            return upstream(*args, **kwargs)

    return infer


def require_described(name: str) -> None:
    """Refuse an operator that is not described for the chip in use; torch_npu's without a record are for A2 and A3."""
    if name.startswith("npu::") or name in RECORDS.names():
        record = RECORDS.get(name)
        chip.require_described(title(name), A2_AND_A3 if record is None else record.chips)


def title(name: str) -> str:
    """A full name without namespace and overload."""
    return name.partition("::")[2].partition(".")[0]


def full(name: str) -> str:
    """``name`` with its namespace."""
    return name if "::" in name else f"npu::{name}"


# Records are loaded when their operators are first called: until then their names are enough.
RECORDS: Table[Operator] = Table(Index("RECORDS"))
# The GE node that an operator becomes, for those that say so.
NODES: Table[str] = Table(Index("NODES"))


def operator(
    name: str,
    *,
    reference: Callable[..., Any] | None = None,
    node: str | None = None,
    on_any_device: Sequence[str] = (),
    results: Callable[[Results], Results] | None = None,
    chips: tuple[Chip, ...] = A2_AND_A3,
) -> Callable[[Callable[..., Plan] | Operator], Operator]:
    """Declare an operator by its rules.

    The decorated function takes a ``Rules`` and the arguments of the schema in order, checks them and returns a
    ``Plan``. Operators with the same rules stack their decorators, as an in-place operator and its functional form do.

    Args:
        name: The overload, such as ``npu_quantize`` or ``my_ops::scale.out``; the default namespace is ``npu``.
        reference: The function that computes the results of a call. It is called by name, see ``Operator.call``.
        node: The GE node type, for an operator that lowers to one node whose inputs are the arguments of the same names
            and whose attributes are fields of the plan. Other lowerings are functions under ``lowers``.
        on_any_device: Tensor arguments whose values the host reads; they may be on the CPU beside others on an NPU.
        results: Maps the results of the decorated record's plan to those of this operator.
        chips: The chips that rules and reference are described for, from ``graph_quant.chip``. On other chips the host
            refuses the operator.

    Returns:
        A decorator that returns the record.

    Raises:
        TypeError: ``reference`` has a parameter that is neither an argument nor a field of the plan.

    Examples:
        >>> def double(x, to):
        ...     return (2 * x).to(to)
        >>> @dataclass(frozen=True)
        ... class DoublePlan(Plan):
        ...     to: torch.dtype
        >>> @operator("my_ops::double", reference=double)
        ... def double_rules(rules: Rules, x: Tensor) -> DoublePlan:
        ...     rules.dtype("x", x, (torch.float16, torch.float32))
        ...     return DoublePlan((Result(tuple(x.shape), x.dtype),), x.dtype)
    """

    def record(rules: Callable[..., Plan] | Operator) -> Operator:
        entry = Operator(name, _returning(rules, results), reference, on_any_device, chips)
        if reference is not None:
            entry.check_names(reference)
        if node is not None:
            NODES[entry.name] = node
        RECORDS[entry.name] = entry
        return entry

    return record


def _returning(
    rules: Callable[..., Plan] | Operator, results: Callable[[Results], Results] | None
) -> Callable[..., Plan]:
    """The rules of a function or of another record, with ``results`` applied to those of the plan."""
    own = rules.rules if isinstance(rules, Operator) else rules
    assert own is not None
    if results is None:
        return own

    @functools.wraps(own)
    def planned(*values: Any) -> Plan:
        plan = own(*values)
        return replace(plan, results=results(plan.results))

    return planned


def reference_only(name: str, reference: Callable[..., Any], chips: tuple[Chip, ...] = A2_AND_A3) -> Operator:
    """Declare an operator whose checks, shape inference and lowering are upstream's, and only its reference is here.

    Args:
        name: The overload, such as ``npu_rms_norm``; the default namespace is ``npu``.
        reference: The function that computes the results; its parameters are named as in the schema.
        chips: The chips that the reference is described for.

    Returns:
        The record.

    Examples:
        >>> npu_fast_gelu = reference_only("npu_fast_gelu", fast_gelu)
    """
    entry = Operator(name, None, reference, chips=chips)
    RECORDS[entry.name] = entry
    return entry
