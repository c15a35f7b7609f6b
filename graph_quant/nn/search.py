"""``search``: which module may have which scheme, under a budget of size or of error."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from graph_quant.joined_linears import joined_name
from graph_quant.nn.accuracy import ErrorSums, call_model, first_tensor
from graph_quant.nn.mixed import Mixed
from graph_quant.nn.names import find_recipe
from graph_quant.nn.observe import Observations
from graph_quant.nn.quantize import choose_modules, quantize_
from graph_quant.nn.recipes import Recipe
from torch import nn

FLOAT = "float"


@dataclass(frozen=True)
class Budget:
    """What the quantised model may cost; exactly one of the two.

    Args:
        size: The most bytes of parameters and buffers, or, up to 1, the share of the float model's.
        sqnr: The least SQNR of the model's result, in dB.

    Raises:
        ValueError: Both, none, or a size that is not positive.

    Examples:
        >>> Budget(size=0.4), Budget(sqnr=30)
    """

    size: float | None = None
    sqnr: float | None = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.sqnr is None):
            raise ValueError("Budget: either size or sqnr must be stated")
        if self.size is not None and self.size <= 0:
            raise ValueError(f"Budget: size must be positive, got {self.size}")


@dataclass
class SearchResult:
    """The result of `search`.

    Attributes:
        recipe: The scheme of each module, for `quantize_`.
        size: The bytes of the quantised model.
        float_size: Those of the float model.
        sqnr: The SQNR of the quantised model's result, as measured, in dB.
        sensitivities: The SQNR in dB of each module by itself, by name and scheme.
    """

    recipe: Mixed
    size: int
    float_size: int
    sqnr: float
    sensitivities: dict[str, dict[str, float]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The result as lines of text.

        Yields:
            A line for each module, the most sensitive one first, and the totals.
        """
        width = max(map(len, self.sensitivities), default=0)
        worst = {name: min(by_scheme.values()) for name, by_scheme in self.sensitivities.items()}
        for name in sorted(worst, key=worst.__getitem__):
            numbers = ", ".join(f"{scheme} {sqnr:.1f} dB" for scheme, sqnr in self.sensitivities[name].items())
            yield f"{name:{width}}  {self.recipe.schemes.get(name, FLOAT):6}  ({numbers})"
        share = self.size / self.float_size if self.float_size else math.nan
        yield f"{self.size:,} of {self.float_size:,} bytes ({100 * share:.3g} %), SQNR {self.sqnr:.1f} dB"


@dataclass
class _Option:
    """A scheme of a module: its bytes, its work, and the share of its result that is noise.

    The work is the weights times the bits of both operands: integer products of 8 bits take half of those that widen
    8 bits to 16.
    """

    scheme: str
    size: int
    work: int
    noise: float


def search(
    model: nn.Module,
    samples: Iterable[Any],
    budget: Budget,
    *,
    schemes: Sequence[str] = ("W4A8", "W8A8", "W8A16"),
    together: Callable[[str], str] = joined_name,
    observations: Observations | None = None,
    progress: Callable[[float], object] | None = None,
) -> SearchResult:
    r"""Choose a scheme for each module: the smallest at first, then better ones where they help most.

    Each module is measured by itself with each scheme, on the float model's inputs. From all modules in their cheapest
    scheme on, the module whose next option removes the most noise for its cost is improved, up to floats. The cost is
    the bytes for a budget of size, until it is used up, and the work (bits of weights times bits of activations) for a
    budget of SQNR, until the measured result is good enough.

    Args:
        model: The float model; it is not changed.
        samples: Inputs: each a tensor, a tuple of positional or a dict of keyword arguments.
        budget: The size or the SQNR.
        schemes: Names of recipes.
        together: Maps the name of a module to the name of its group; a group gets one scheme. By default what engines
            join to one linear is a group: queries, keys and values, and gate and up projections.
        observations: What ``observe`` recorded, for recipes that need it.
        progress: Called with the share of the work that is done.

    Returns:
        The recipe, with the size and the SQNR of the model that it gives.

    Raises:
        ValueError: There are no samples or modules, or no choice is within the budget.

    Examples:
        >>> result = search(model, samples, Budget(sqnr=30))
        >>> result.recipe.save("recipe.json")
        >>> quantize_(model, result.recipe)
    """
    inputs, seen = list(samples), Observations() if observations is None else observations
    if not inputs:
        raise ValueError("search: samples must not be empty")
    report: Callable[[float], object] = (lambda _: None) if progress is None else progress
    names, options, sensitivities = _measure(model, inputs, schemes, together, seen, lambda share: report(share / 2))
    float_size = sum(_bytes(tensor) for tensor in _tensors(model))
    fixed = float_size - sum(choices[0].size for choices in options.values())
    cost: _Cost = _work if budget.size is None else _size
    options = {name: _useful(choices, cost) for name, choices in options.items()}
    steps = _order_steps(options, cost)
    most = math.inf if budget.size is None else budget.size * (float_size if budget.size <= 1 else 1)

    def state(count: int) -> dict[str, _Option]:
        chosen = {name: choices[0] for name, choices in options.items()}
        for name, index in steps[:count]:
            chosen[name] = options[name][index]
        return chosen

    def size(count: int) -> int:
        return fixed + sum(option.size for option in state(count).values())

    if size(0) > most:
        raise ValueError(f"search: the smallest choice has {size(0):,} bytes, more than the budget of {int(most):,}")
    measured: dict[int, float] = {}

    def sqnr(count: int) -> float:
        if count not in measured:
            schemes_of = {name: option.scheme for name, option in state(count).items() if option.scheme != FLOAT}
            measured[count] = _sqnr(model, inputs, _expand(schemes_of, names), seen)
            report(min(0.5 + len(measured) / (2 * (2 + math.log2(len(steps) + 1))), 1.0))
        return measured[count]

    if budget.size is not None:
        count = max(count for count in range(len(steps) + 1) if size(count) <= most)
    else:
        least = budget.sqnr or 0.0
        count = _first(len(steps), lambda count: sqnr(count) >= least)
    chosen = {name: option.scheme for name, option in state(count).items() if option.scheme != FLOAT}
    report(1.0)
    return SearchResult(Mixed(_expand(chosen, names)), size(count), float_size, sqnr(count), sensitivities)


def _expand(schemes: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The schemes by all names of the modules of each group."""
    return {name: scheme for group, scheme in schemes.items() for name in names[group]}


def _first(last: int, is_enough: Callable[[int], bool]) -> int:
    """The least count of steps that is enough; ``last``, without any quantised module, always is."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


_Cost = Callable[[_Option], int]


def _size(option: _Option) -> int:
    return option.size


def _work(option: _Option) -> int:
    return option.work


def _order_steps(options: Mapping[str, Sequence[_Option]], cost: _Cost) -> list[tuple[str, int]]:
    """The improvements of modules, those that remove most noise for their cost first; a module's own in order."""
    position = dict.fromkeys(options, 0)
    steps = []
    while open_names := [name for name, index in position.items() if index + 1 < len(options[name])]:

        def gain(name: str) -> float:
            now, then = options[name][position[name] : position[name] + 2]
            return (now.noise - then.noise) / max(cost(then) - cost(now), 1)

        best = max(open_names, key=gain)
        position[best] += 1
        steps.append((best, position[best]))
    return steps


def _measure(
    model: nn.Module,
    inputs: list[Any],
    schemes: Sequence[str],
    together: Callable[[str], str],
    seen: Observations,
    report: Callable[[float], object],
) -> tuple[dict[str, list[str]], dict[str, list[_Option]], dict[str, dict[str, float]]]:
    """The module names of each group, its options, and the SQNR of modules by scheme."""
    names: dict[str, list[str]] = {}
    options: dict[str, dict[str, _Option]] = {}
    sensitivities: dict[str, dict[str, float]] = {}
    shared = _shared_tensors(model)
    for index, scheme in enumerate(schemes):
        recipe = find_recipe(scheme)
        chosen, _ = choose_modules(model, recipe, None, ())
        twins = {all_names[0]: (module, twin) for all_names, module in chosen
                 if (twin := _try(recipe, module, all_names[0], seen)) is not None}  # fmt: skip
        names |= {all_names[0]: all_names for all_names, _ in chosen if all_names[0] in twins}
        sums = _own_errors(model, inputs, twins)
        for name, (module, twin) in twins.items():
            error = sums[name]
            own = (tensor for tensor in _tensors(module) if id(tensor) not in shared)
            weights = sum(tensor.numel() for tensor in _tensors(module))
            choices = options.setdefault(name, {FLOAT: _Option(FLOAT, sum(map(_bytes, own)), weights * 256, 0.0)})
            noise = error.noise / error.signal if error.signal else 0.0
            choices[scheme] = _Option(scheme, sum(map(_bytes, _tensors(twin))), weights * _bits(scheme), noise)
            sensitivities.setdefault(name, {})[scheme] = error.sqnr
        report((index + 1) / len(schemes))
    if not options:
        raise ValueError(f"search: no module of {type(model).__name__} can be quantised to {', '.join(schemes)}")
    groups: dict[str, list[str]] = {}
    for name in options:
        groups.setdefault(together(name), []).append(name)
    joined = {group: _add(options[name] for name in members) for group, members in groups.items()}
    names_of = {group: [name for member in members for name in names[member]] for group, members in groups.items()}
    return names_of, joined, sensitivities


def _add(members: Iterable[Mapping[str, _Option]]) -> list[_Option]:
    """The options that all modules of a group have: their bytes and their noise add up."""
    modules = list(members)
    common = [scheme for scheme in modules[0] if all(scheme in choices for choices in modules)]
    options = []
    for scheme in common:
        parts = [choices[scheme] for choices in modules]
        size, work = sum(map(_size, parts)), sum(map(_work, parts))
        options.append(_Option(scheme, size, work, sum(part.noise for part in parts)))
    return options


def _bits(scheme: str) -> int:
    """The bits of weights times those of activations; those of floats for a name that does not tell."""
    match = re.search(r"W(\d+)A(\d+)", scheme.upper())
    return 256 if match is None else int(match[1]) * int(match[2])


def _shared_tensors(model: nn.Module) -> set[int]:
    """The ids of the tensors of several modules, as of tied embeddings: they stay when one module is quantised."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    return {tensor for tensor, count in owners.items() if count > 1}


def _useful(choices: Sequence[_Option], cost: _Cost) -> list[_Option]:
    """Options from the cheapest on; dearer ones only if they have less noise."""
    useful: list[_Option] = []
    for option in sorted(choices, key=lambda option: (cost(option), option.noise)):
        if not useful or option.noise < useful[-1].noise:
            useful.append(option)
    return useful


def _try(recipe: Recipe, module: nn.Module, name: str, seen: Observations) -> nn.Module | None:
    try:
        return recipe.quantised(module, name, seen).train(module.training)
    except ValueError:  # its sizes do not fit the scheme
        return None


def _own_errors(
    model: nn.Module, inputs: list[Any], twins: Mapping[str, tuple[nn.Module, nn.Module]]
) -> dict[str, ErrorSums]:
    sums = {name: ErrorSums() for name in twins}

    def hook(name: str, twin: nn.Module) -> Callable[..., None]:
        def run(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> None:
            sums[name].add(first_tensor(result), first_tensor(twin(*arguments, **keywords)))

        return run

    handles = [
        module.register_forward_hook(hook(name, twin), with_kwargs=True) for name, (module, twin) in twins.items()
    ]
    try:
        with torch.no_grad():
            for sample in inputs:
                call_model(model, sample)
    finally:
        for handle in handles:
            handle.remove()
    return sums


def _sqnr(model: nn.Module, inputs: list[Any], schemes: Mapping[str, str], seen: Observations) -> float:
    if not schemes:
        return math.inf
    quantised = copy.deepcopy(model)
    quantize_(quantised, Mixed(schemes), observations=seen)
    sums = ErrorSums()
    with torch.no_grad():
        for sample in inputs:
            sums.add(first_tensor(call_model(model, sample)), first_tensor(call_model(quantised, sample)))
    return sums.sqnr


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
