"""load_quantised: a checkpoint's integers into the modules of a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from graph_quant.nn.checkpoints.build import experts_of, joined, linear_of
from graph_quant.nn.checkpoints.compressed_tensors import CompressedTensors
from graph_quant.nn.checkpoints.files import Files
from graph_quant.nn.checkpoints.msmodelslim import MsModelSlim
from graph_quant.nn.checkpoints.stored import CheckpointError, Stored
from graph_quant.nn.checkpoints.torchao import TorchAo
from graph_quant.nn.experts.source import is_experts, why_not
from graph_quant.nn.rows import check_half
from torch import Tensor, nn

# What the linears of one expert are called in checkpoints: gate, up and down.
_EXPERTS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))


class Format(Protocol):
    """What is asked of a checkpoint's format."""

    title: str

    def is_quantised(self, linear: str) -> bool:
        """Whether the weight of ``linear`` is stored as integers."""

    def weight(self, linear: str, shape: tuple[int, int]) -> Stored:
        """The weight of ``linear``, which is (n, k)."""

    def caches(self) -> dict[str, dict[str, Tensor]]:
        """Scales and offsets of quantised caches, by the module that they belong to."""


class Loaded(list[str]):
    """The names of what was replaced. ``caches`` are scales of quantised caches, for an attention that has one."""

    def __init__(self, names: Sequence[str], title: str, caches: dict[str, dict[str, Tensor]]) -> None:
        super().__init__(names)
        self.format = title
        self.caches = caches


def load_quantised(model: nn.Module, path: str | Path) -> Loaded:
    """Loads the checkpoint in the folder ``path`` into ``model``, which has its architecture, in place.

    Linears and experts that it stores as integers are replaced by modules of this package that compute with those
    integers; everything else is loaded as it is. msModelSlim (``quant_model_description*.json``), compressed-tensors
    and torchao (in safetensors files) are understood. A tensor or scheme that is not understood, and one that is
    missing, is refused by name, and then ``model`` stays as it was.
    """
    files = Files(Path(path))
    form = _format(files)
    if without := next((name for name, tensor in model.state_dict().items() if tensor.is_meta), None):
        raise CheckpointError(f"{without} of the model has no storage: make the model on a device, or call to_empty")
    replacements: dict[str, nn.Module] = {}
    inside: list[str] = []
    for name, module in model.named_modules():
        if any(name.startswith(f"{outer}.") for outer in inside):
            continue
        if is_experts(module) and _names_of_experts(files, name):
            inside.append(name)
            found: nn.Module | None = _experts(form, files, name, module)
        else:
            is_own = type(module) is nn.Linear and not _is_another(model, name, files)
            found = _linear(form, files, name, module) if is_own else None
        if found is not None:
            replacements[name] = found.to(next(module.parameters()).device).train(module.training)
    plain = _plain(model, files, replacements)
    caches = form.caches()
    if rest := [name for name in files.names if name not in files.taken]:
        raise CheckpointError(f"{path}: not understood: {', '.join(rest[:8])}{', …' if len(rest) > 8 else ''}")
    if not replacements:
        raise CheckpointError(f"{path}: it holds no quantised weight of {type(model).__name__}")
    model.load_state_dict(plain, strict=False)
    for name, module in replacements.items():
        model.set_submodule(name, module)
    return Loaded(list(replacements), form.title, caches)


def _format(files: Files) -> Format:
    if description := files.read_json("quant_model_description*.json"):
        return MsModelSlim(files, description)
    config = files.read_json("config.json").get("quantization_config") or {}
    method = config.get("quant_method")
    if method == "compressed-tensors":
        return CompressedTensors(files, config)
    if method == "torchao" or "tensor_names" in files.remarks:
        return TorchAo(files)
    told = f"its quant_method is {method}" if method else "it has no quant_model_description*.json, no quant_method"
    raise CheckpointError(f"{files.folder}: {told}; understood are msModelSlim, compressed-tensors and torchao")


def _linear(form: Format, files: Files, name: str, linear: nn.Module) -> nn.Module | None:
    assert isinstance(linear, nn.Linear)
    if not form.is_quantised(name):
        return None
    dtype = check_half("load_quantised", f"{name}.weight of the model", linear.weight.dtype)
    stored = _weight(form, name, (linear.out_features, linear.in_features))
    bias = None
    if linear.bias is not None:  # an integer bias has it in itself
        bias = files.take_if_there(f"{name}.bias") if stored.integer_bias is not None else files.take(f"{name}.bias")
    if bias is not None and bias.shape != linear.bias.shape:
        told = f"{tuple(linear.bias.shape)} and {tuple(bias.shape)}"
        raise CheckpointError(f"{name}.bias: model and checkpoint must agree on its shape, got {told}")
    return linear_of(name, stored, bias, dtype)


def _weight(form: Format, linear: str, shape: tuple[int, int]) -> Stored:
    stored = form.weight(linear, shape)
    stored.check(linear)
    return stored


def _names_of_experts(files: Files, name: str) -> tuple[str, str, str] | None:
    for names in _EXPERTS:
        if any(f"{name}.0.{names[0]}.{end}" in files for end in ("weight", "weight_packed", "_weight_qdata")):
            return names
    return None


def _experts(form: Format, files: Files, name: str, module: nn.Module) -> nn.Module | None:
    names = _names_of_experts(files, name)
    assert names is not None
    if not form.is_quantised(f"{name}.0.{names[0]}"):
        raise CheckpointError(f"{name}: experts that are stored as floats are not joined; quantize_ does so")
    if why := why_not(module):
        raise CheckpointError(f"{name}: experts of {type(module).__name__} are not served: {why}")
    gate_up, count, inner = _shapes(module)
    dtype = check_half("load_quantised", f"{name} of the model", gate_up.dtype)
    hidden = gate_up.size(-1) if gate_up.size(1) == 2 * inner else gate_up.size(1)
    first, second = [], []
    for place in range(count):
        gate, up = (_weight(form, f"{name}.{place}.{part}", (inner, hidden)) for part in names[:2])
        first.append(joined(gate, up))
        second.append(_weight(form, f"{name}.{place}.{names[2]}", (hidden, inner)))
    return experts_of(name, first, second, module.act_fn, dtype)  # type: ignore[arg-type]


def _shapes(module: nn.Module) -> tuple[Tensor, int, int]:
    gate_up: Tensor = module.gate_up_proj  # type: ignore[assignment]
    down: Tensor = module.down_proj  # type: ignore[assignment]
    turned = getattr(module, "is_transposed", False)
    return gate_up, gate_up.size(0), down.size(1 if turned else 2)


def _plain(model: nn.Module, files: Files, replaced: dict[str, nn.Module]) -> dict[str, Tensor]:
    """The parameters and buffers that are loaded as they are."""
    found = {}
    for name, tensor in model.state_dict().items():
        if any(name.startswith(f"{module}.") for module in replaced):
            continue
        if name not in files:
            if _is_tied(model, name, files, replaced):
                continue
            raise CheckpointError(f"{files.folder}: it holds no {name}")
        stored = files.take(name)
        if stored.shape != tensor.shape:
            told = f"{tuple(tensor.shape)} and {tuple(stored.shape)}"
            raise CheckpointError(f"{name}: model and checkpoint must agree on its shape, got {told}")
        if tensor.is_floating_point() and (not stored.is_floating_point() or stored.dtype.itemsize == 1):
            raise CheckpointError(f"{name}: it is stored as {stored.dtype}, and its module cannot be replaced")
        found[name] = stored
    return found


def _is_another(model: nn.Module, linear: str, files: Files) -> bool:
    """Whether nothing is stored of a linear whose weight is another's."""
    stored = any(name.startswith(f"{linear}.") for name in files.names)
    return not stored and _is_tied(model, f"{linear}.weight", files, ())


def _is_tied(model: nn.Module, name: str, files: Files, replaced: Collection[str]) -> bool:
    """Whether a parameter is another one that is loaded, as an output layer that shares the embedding's weight."""
    named = dict(model.named_parameters(remove_duplicate=False))
    own = named.get(name)
    return own is not None and any(
        other is own and key in files and key.rpartition(".")[0] not in replaced
        for key, other in named.items()
        if key != name
    )
