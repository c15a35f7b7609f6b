"""``compare``: what quantisation costs, by layer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from graph_quant.nn.checkpoints.extract import is_quantised
from graph_quant.nn.observe import Filter
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.pages import render
from torch import Tensor, nn

_LOWEST, _HIGHEST = -128, 127


@dataclass
class ErrorSums:
    """Sums over all compared values, from which `Comparison` computes SQNR, cosine and the largest error."""

    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    energy: float = 0.0
    largest: float = 0.0
    is_finite: bool = True

    def add(self, expected: Tensor, actual: Tensor) -> None:
        """Add values; both of one shape."""
        if expected.shape != actual.shape:
            raise ValueError(f"compare: results must have one shape, got {[*expected.shape]} and {[*actual.shape]}")
        one, two = expected.detach().double().cpu(), actual.detach().double().cpu()
        error = two - one
        self.is_finite &= bool(one.isfinite().all() and two.isfinite().all())
        self.signal += one.square().sum().item()
        self.energy += two.square().sum().item()
        self.noise += error.square().sum().item()
        self.product += (one * two).sum().item()
        self.largest = max(self.largest, error.abs().max().item() if error.numel() else 0.0)

    @property
    def sqnr(self) -> float:
        """The signal to noise ratio in dB: infinite for equal values, NaN where a value is not finite."""
        if not self.is_finite:
            return math.nan
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def cosine(self) -> float:
        """The cosine similarity; 1 for equal values."""
        if not self.is_finite:
            return math.nan
        norm = math.sqrt(self.signal * self.energy)
        return self.product / norm if norm else float(self.noise == 0)


@dataclass
class LayerError:
    """The error of one module.

    Attributes:
        name: Its name; empty for the whole model.
        kind: Its class in the quantised model.
        sqnr: Of its result in the quantised model against the float model, in dB.
        cosine: Cosine similarity of the same.
        max_error: The largest absolute difference of the same.
        own_sqnr: SQNR of the module alone, with the float model's inputs; None of a module that contains others.
        inherited_sqnr: SQNR of the float module with the quantised model's inputs; None as above.
        saturated: The share of activations beyond a stored range; None without one.
        weight_range: The smallest and largest weight; None as above.
        input_range: The smallest and largest input in the float model; None as above.
    """

    name: str
    kind: str
    sqnr: float
    cosine: float
    max_error: float
    own_sqnr: float | None = None
    inherited_sqnr: float | None = None
    saturated: float | None = None
    weight_range: tuple[float, float] | None = None
    input_range: tuple[float, float] | None = None


@dataclass
class Comparison:
    """The result of `compare`.

    Attributes:
        layers: The quantised modules, those that lose most by themselves first.
        modules: The modules that contain them, and the whole model, outermost first.
        top1: The share of results whose largest element is at one position in both models.
        perplexity: Of the float and of the quantised model, where samples are tokens and results their logits.
    """

    layers: list[LayerError] = field(default_factory=list)
    modules: list[LayerError] = field(default_factory=list)
    top1: float | None = None
    perplexity: tuple[float, float] | None = None

    @property
    def output(self) -> LayerError:
        """The error of the whole model."""
        return self.modules[0]

    def keep_float(self, min_sqnr: float) -> Filter:
        """A filter for `quantize_` that leaves out the layers whose own SQNR is lower.

        Args:
            min_sqnr: The least SQNR of a layer by itself, in dB.

        Returns:
            The filter.

        Examples:
            >>> quantize_(build_model(), "W4A8", comparison.keep_float(20))
        """
        left = {layer.name for layer in self.layers if not (layer.own_sqnr or 0.0) >= min_sqnr}
        return lambda _, name: name not in left

    def lines(self, most: int = 0) -> Iterator[str]:
        """The table as lines of text.

        Args:
            most: How many layers to show; 0 for all.

        Yields:
            A header, one line for each layer, and the whole model.
        """
        shown = self.layers[: most or None]
        width = max([len(layer.name) for layer in shown] + [5])
        yield f"{'layer':{width}}  own dB  inherited dB  total dB    cosine  max error  saturated  class"
        for layer in shown:
            numbers = f"{_decibel(layer.own_sqnr):>6}  {_decibel(layer.inherited_sqnr):>12}  {_decibel(layer.sqnr):>8}"
            share = "" if layer.saturated is None else f"{100 * layer.saturated:.2g} %"
            errors = f"{layer.cosine:8.6f}  {layer.max_error:9.3g}  {share:>9}"
            yield f"{layer.name:{width}}  {numbers}  {errors}  {layer.kind}"
        if len(shown) < len(self.layers):
            yield f"… {len(self.layers) - len(shown)} more layers"
        agreement = "" if self.top1 is None else f", {100 * self.top1:.4g} % of the largest elements agree"
        if self.perplexity is not None:
            agreement += f", perplexity {self.perplexity[0]:.5g} and {self.perplexity[1]:.5g}"
        yield f"whole model: {_decibel(self.output.sqnr)} dB, cosine {self.output.cosine:.6f}{agreement}"

    def to_json(self) -> str:
        """The comparison as JSON.

        Returns:
            The text; infinite numbers and NaN are strings.
        """
        facts = {
            "output": asdict(self.output),
            "top1": self.top1,
            "perplexity": self.perplexity,
            "layers": [asdict(layer) for layer in self.layers],
            "modules": [asdict(module) for module in self.modules],
        }
        return json.dumps(_without_infinities(facts), indent=1, allow_nan=False) + "\n"

    def to_html(self, title: str = "Quantisation error by layer") -> str:
        """The comparison as one HTML page with a bar for each layer.

        Args:
            title: The title of the page.

        Returns:
            The page, which loads nothing.
        """
        finite = [
            layer.own_sqnr for layer in self.layers if layer.own_sqnr is not None and math.isfinite(layer.own_sqnr)
        ]
        top = max([*finite, 1.0])
        rows = [
            {
                "layer": layer,
                "own": _decibel(layer.own_sqnr),
                "inherited": _decibel(layer.inherited_sqnr),
                "total": _decibel(layer.sqnr),
                "bar": _share(layer.own_sqnr, top),
                "saturated": "" if layer.saturated is None else f"{100 * layer.saturated:.2g} %",
            }
            for layer in self.layers
        ]
        return render("graph_quant.nn", "accuracy.html", title=title, rows=rows, summary=list(self.lines(1))[-1])


def compare(float_model: nn.Module, quantised: nn.Module, samples: Iterable[Any]) -> Comparison:
    r"""Compare a quantised model with the float model that it was, layer by layer.

    Args:
        float_model: The model before `quantize_`.
        quantised: The same model after it.
        samples: Inputs: each a tensor, a tuple of positional or a dict of keyword arguments.

    Returns:
        The errors: each layer's own, what it inherits from layers before it, and both together.

    Raises:
        ValueError: Nothing is quantised, the models have other modules, or there are no samples.

    Examples:
        >>> comparison = compare(model, quantised, [prompt])
        >>> print("\n".join(comparison.lines()))
    """
    pairs = _pair_modules(float_model, quantised)
    recorders = {name: _Recorder(one, two) for name, (one, two) in pairs.items()}
    agreeing = compared = count = 0
    losses = _Losses()
    for sample in samples:
        count += 1
        with torch.no_grad(), _hooked(recorders, 0):
            expected = first_tensor(call_model(float_model, sample))
        with torch.no_grad(), _hooked(recorders, 1):
            actual = first_tensor(call_model(quantised, sample))
        for name, recorder in recorders.items():
            if recorder.expected:
                raise ValueError(f"compare: {name or 'the model'} was called less often in the quantised model")
        losses.add(sample, expected, actual)
        if expected.dim() and expected.size(-1) > 1:
            agreeing += int((expected.argmax(-1) == actual.argmax(-1)).sum())
            compared += expected.argmax(-1).numel()
    if not count:
        raise ValueError("compare: samples must not be empty")
    errors = {name: recorder.error(name) for name, recorder in recorders.items() if recorder.is_called}
    result = Comparison(top1=agreeing / compared if compared else None, perplexity=losses.perplexity)
    result.modules = [error for name, error in errors.items() if not recorders[name].is_layer]
    layers = [error for name, error in errors.items() if recorders[name].is_layer]
    result.layers = sorted(layers, key=lambda error: _sort_key(error.own_sqnr))
    if not layers:
        raise ValueError("compare: the samples call no quantised module")
    return result


def _sort_key(sqnr: float | None) -> float:
    return -math.inf if sqnr is None or math.isnan(sqnr) else sqnr


def _pair_modules(float_model: nn.Module, quantised: nn.Module) -> dict[str, tuple[nn.Module, nn.Module]]:
    names = [name for name, module in quantised.named_modules() if is_quantised(module)]
    if not names:
        raise ValueError(f"compare: {type(quantised).__name__} has no quantised module")
    parents = {name.rpartition(".")[0] for name in names}
    while further := {name.rpartition(".")[0] for name in parents} - parents:
        parents |= further
    order = [name for name, _ in quantised.named_modules() if name in parents or name in names]
    pairs = {}
    for name in order:
        try:
            one = float_model.get_submodule(name)
        except AttributeError:
            raise ValueError(f"compare: the float model has no {name}") from None
        if is_quantised(one):
            raise ValueError(f"compare: {name} of the float model is quantised; compare with a copy made before")
        pairs[name] = (one, quantised.get_submodule(name))
    return pairs


class _Losses:
    """Sums the losses of both models, where a sample holds tokens (batch, length) and the results are their logits."""

    def __init__(self) -> None:
        self._sums, self._count = [0.0, 0.0], 0

    def add(self, sample: Any, *results: Tensor) -> None:
        tokens = _tokens(sample, results[0])
        if tokens is None or tokens.size(1) < 2:
            return
        mask = sample.get("attention_mask") if isinstance(sample, Mapping) else None
        kept = (torch.ones_like(tokens) if mask is None else mask)[:, 1:].reshape(-1).cpu() != 0
        targets = tokens[:, 1:].reshape(-1).cpu().long()[kept]
        self._count += targets.numel()
        for index, logits in enumerate(results):
            rows = logits[:, :-1].float().cpu().reshape(kept.numel(), -1)[kept]
            self._sums[index] += nn.functional.cross_entropy(rows, targets, reduction="sum").item()

    @property
    def perplexity(self) -> tuple[float, float] | None:
        if not self._count:
            return None
        one, two = (math.exp(min(total / self._count, 700.0)) for total in self._sums)
        return one, two


def _tokens(sample: Any, logits: Tensor) -> Tensor | None:
    """The tokens of a sample, if the logits are of them; a vocabulary has every one of them."""
    values = sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, tuple) else (sample,)
    named = sample.get("input_ids") if isinstance(sample, Mapping) else None
    for value in values if named is None else (named,):
        if isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32) and value.dim() == 2:
            fits = logits.dim() == 3 and logits.shape[:2] == value.shape
            return value if fits and bool((value >= 0).all() and (value < logits.size(-1)).all()) else None
    return None


class _Recorder:
    """Records the results of one module in the float model, and compares those of its quantised twin."""

    def __init__(self, one: nn.Module, two: nn.Module) -> None:
        self.modules = (one, two)
        self.is_layer = is_quantised(two)
        self.expected: list[Tensor] = []
        self.total, self.own, self.inherited = ErrorSums(), ErrorSums(), ErrorSums()
        self.is_called = False
        self._range = (math.inf, -math.inf)
        self._saturated = self._inputs = 0

    def record_float(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any], result: Any) -> None:
        """Store the result of the float module; compute the quantised one with the same inputs."""
        value = first_tensor(result).detach()
        self.expected.append(value)
        if self.is_layer:
            # forward, so that no hook runs
            self.own.add(value, first_tensor(self.modules[1].forward(*arguments, **keywords)))
            self._record_inputs(first_tensor(arguments or tuple(keywords.values())))

    def record_quantised(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any], result: Any) -> None:
        """Compare the result of the quantised module, and compute the float one with the same inputs."""
        if not self.expected:
            raise ValueError(f"compare: {type(self.modules[1]).__name__} was called more often in the quantised model")
        self.is_called = True
        expected = self.expected.pop(0)
        self.total.add(expected, first_tensor(result))
        if self.is_layer:
            self.inherited.add(expected, first_tensor(self.modules[0].forward(*arguments, **keywords)))

    def _record_inputs(self, x: Tensor) -> None:
        if not x.numel():
            return
        low, high = x.min().item(), x.max().item()
        self._range = min(self._range[0], low), max(self._range[1], high)
        layer = self.modules[1]
        if isinstance(layer, StaticW8A8Linear):
            scaled = (x.float() * layer.multiplier.float()).round() + layer.zero_point.float()
            self._saturated += int(((scaled < _LOWEST) | (scaled > _HIGHEST)).sum())
            self._inputs += x.numel()

    def error(self, name: str) -> LayerError:
        """The error of the module."""
        error = LayerError(name, type(self.modules[1]).__name__, self.total.sqnr, self.total.cosine, self.total.largest)
        if self.is_layer:
            error.own_sqnr, error.inherited_sqnr = self.own.sqnr, self.inherited.sqnr
            error.saturated = self._saturated / self._inputs if self._inputs else None
            weights = [parameter.detach() for parameter in self.modules[0].parameters() if parameter.dim() > 1]
            if weights:
                error.weight_range = (
                    min(weight.min().item() for weight in weights),
                    max(weight.max().item() for weight in weights),
                )
            error.input_range = self._range if self._range[0] <= self._range[1] else None
        return error


@contextmanager
def _hooked(recorders: Mapping[str, _Recorder], side: int) -> Iterator[None]:
    def hook(recorder: _Recorder) -> Callable[..., None]:
        def run(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> None:
            (recorder.record_quantised if side else recorder.record_float)(arguments, keywords, result)

        return run

    handles = [
        recorder.modules[side].register_forward_hook(hook(recorder), with_kwargs=True)
        for recorder in recorders.values()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def call_model(model: nn.Module, sample: Any) -> Any:
    """Call a model with a sample: a tensor, a tuple of positional or a dict of keyword arguments."""
    if isinstance(sample, Mapping):
        return model(**sample)
    return model(*sample) if isinstance(sample, tuple) else model(sample)


def first_tensor(result: Any) -> Tensor:
    """The logits of a result, or its first tensor."""
    if isinstance(result, Tensor):
        return result
    logits = getattr(result, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    items = result.values() if isinstance(result, Mapping) else result if isinstance(result, (tuple, list)) else ()
    for item in items:
        if isinstance(item, (Tensor, tuple, list, Mapping)):
            return first_tensor(item)
    raise ValueError(f"compare: a result without a tensor: {type(result).__name__}")


def _decibel(sqnr: float | None) -> str:
    if sqnr is None:
        return ""
    return "equal" if sqnr == math.inf else f"{sqnr:.1f}"


def _share(sqnr: float | None, top: float) -> int:
    if sqnr is None or math.isnan(sqnr):
        return 0
    return 100 if sqnr == math.inf else max(0, min(100, round(100 * sqnr / top)))


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_infinities(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinities(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
