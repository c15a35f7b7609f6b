"""``load_quantised``: loads a quantised checkpoint into a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import torch
from graph_quant.nn.checkpoints.build import build_experts, build_linear, concat_outputs
from graph_quant.nn.checkpoints.compressed_tensors import CompressedTensors
from graph_quant.nn.checkpoints.files import Files
from graph_quant.nn.checkpoints.heap import return_freed_memory
from graph_quant.nn.checkpoints.msmodelslim import MsModelSlim
from graph_quant.nn.checkpoints.stored import CheckpointError, Stored
from graph_quant.nn.checkpoints.torchao import TorchAo
from graph_quant.nn.experts.source import is_experts, unsupported_reason
from graph_quant.nn.rows import check_half
from torch import Tensor, nn

# Names of an expert's linears in checkpoints: gate, up and down.
_EXPERTS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))


class CheckpointFormat(Protocol):
    """The interface of a checkpoint format."""

    title: str

    def is_quantised(self, linear: str) -> bool:
        """Return whether the weight of ``linear`` is stored as integers."""

    def weight(self, linear: str, shape: tuple[int, int]) -> Stored:
        """Return the weight of ``linear``, of shape (n, k)."""

    def caches(self) -> dict[str, dict[str, Tensor]]:
        """Return scales and offsets of quantised KV caches by module."""


class Loaded(list[str]):
    """The names of the replaced modules; the result of ``load_quantised``.

    Attributes:
        format: The format of the checkpoint, such as ``"msModelSlim"``.
        caches: Scales and offsets of quantised KV caches by module, for an attention that uses them.

    Examples:
        >>> loaded = load_quantised(model, "Qwen3-8B-W8A8")
        >>> loaded.format, len(loaded)
        ('msModelSlim', 252)
    """

    def __init__(self, names: Sequence[str], title: str, caches: dict[str, dict[str, Tensor]]) -> None:
        super().__init__(names)
        self.format = title
        self.caches = caches


def load_quantised(model: nn.Module, path: str | Path, *, device: str | torch.device | None = None) -> Loaded:
    """Load a quantised checkpoint into ``model``, in place.

    Linears and experts that are stored as integers are replaced by quantised modules with the same integers; all other
    parameters are loaded as they are. Formats: msModelSlim (``quant_model_description*.json``), compressed-tensors, and
    torchao, in safetensors files.

    A model whose parameters are on the meta device never takes more memory than the checkpoint: make it under
    ``accelerate.init_empty_weights()``, and name the ``device``.

    Args:
        model: A model with the architecture of the checkpoint, in float16 or bfloat16.
        path: The folder of the checkpoint.
        device: Where all of the model goes; by default each parameter stays on its device.

    Returns:
        The names of the replaced modules, with the format and the scales of KV caches.

    Raises:
        CheckpointError: A tensor or scheme is unknown or missing; ``model`` is then unchanged.
        TypeError: The model's weights are neither float16 nor bfloat16.

    Examples:
        >>> model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        >>> load_quantised(model, "Qwen3-8B-W8A8")

        >>> with accelerate.init_empty_weights():
        ...     model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        >>> load_quantised(model, "Qwen3-8B-W8A8", device="npu")
    """
    files = Files(Path(path))
    form = _format(files)
    _check_storage(model, device)
    replacements: dict[str, nn.Module] = {}
    inside: list[str] = []
    for name, module in model.named_modules():
        if any(name.startswith(f"{outer}.") for outer in inside):
            continue
        if is_experts(module) and _names_of_experts(files, name):
            inside.append(name)
            replacement: nn.Module | None = _experts(form, files, name, module)
        else:
            is_own = type(module) is nn.Linear and not _is_tied_linear(model, name, files)
            replacement = _linear(form, files, name, module) if is_own else None
        if replacement is not None:
            owner = next(module.parameters()).device if device is None else device
            replacements[name] = replacement.to(owner).train(module.training)
            return_freed_memory()
    plain = _plain(model, files, replacements)
    caches = form.caches()
    if rest := [name for name in files.names if name not in files.taken]:
        raise CheckpointError(f"{path}: not understood: {', '.join(rest[:8])}{', …' if len(rest) > 8 else ''}")
    if not replacements:
        raise CheckpointError(f"{path}: it holds no quantised weight of {type(model).__name__}")
    for name, module in replacements.items():
        model.set_submodule(name, module)
    if device is not None:
        _allocate(model, device)
        model.to(device)
    model.load_state_dict(plain, strict=False)
    return Loaded(list(replacements), form.title, caches)


def _check_storage(model: nn.Module, device: str | torch.device | None) -> None:
    """Refuse a model on the meta device without a device to go to, and buffers that no checkpoint holds."""
    kept = model.state_dict()
    for name, tensor in kept.items():
        if tensor.is_meta and device is None:
            raise CheckpointError(f"{name} of the model has no storage: give the device that the model goes to")
    for name, buffer in model.named_buffers():
        if buffer.is_meta and name not in kept:
            raise CheckpointError(
                f"{name} of the model is a buffer without storage, which checkpoints do not hold: make the model under "
                "accelerate.init_empty_weights(), which leaves buffers as they are"
            )


def _allocate(model: nn.Module, device: str | torch.device) -> None:
    """Give storage to the parameters and buffers on the meta device; those that are tied share one again."""
    allocated: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and tensor.is_meta:
                    if tensor not in allocated:
                        empty = torch.empty_like(tensor, device=device)
                        is_parameter = isinstance(tensor, nn.Parameter)
                        allocated[tensor] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
                    tensors[name] = allocated[tensor]  # type: ignore[assignment]


def _format(files: Files) -> CheckpointFormat:
    if description := files.read_json("quant_model_description*.json"):
        return MsModelSlim(files, description)
    config = files.read_json("config.json").get("quantization_config") or {}
    method = config.get("quant_method")
    if method == "compressed-tensors":
        return CompressedTensors(files, config)
    if method == "torchao" or "tensor_names" in files.metadata:
        return TorchAo(files)
    reason = f"its quant_method is {method}" if method else "it has no quant_model_description*.json, no quant_method"
    raise CheckpointError(f"{files.folder}: {reason}; understood are msModelSlim, compressed-tensors and torchao")


def _linear(form: CheckpointFormat, files: Files, name: str, linear: nn.Module) -> nn.Module | None:
    assert isinstance(linear, nn.Linear)
    if not form.is_quantised(name):
        return None
    dtype = check_half("load_quantised", f"{name}.weight of the model", linear.weight.dtype)
    stored = _weight(form, name, (linear.out_features, linear.in_features))
    bias = None
    if linear.bias is not None:  # an integer bias includes it
        bias = files.take_optional(f"{name}.bias") if stored.integer_bias is not None else files.take(f"{name}.bias")
    if bias is not None and bias.shape != linear.bias.shape:
        shapes = f"{tuple(linear.bias.shape)} and {tuple(bias.shape)}"
        raise CheckpointError(f"{name}.bias: model and checkpoint must agree on its shape, got {shapes}")
    return build_linear(name, stored, bias, dtype)


def _weight(form: CheckpointFormat, linear: str, shape: tuple[int, int]) -> Stored:
    stored = form.weight(linear, shape)
    stored.check(linear)
    return stored


def _names_of_experts(files: Files, name: str) -> tuple[str, str, str] | None:
    for names in _EXPERTS:
        if any(f"{name}.0.{names[0]}.{end}" in files for end in ("weight", "weight_packed", "_weight_qdata")):
            return names
    return None


def _experts(form: CheckpointFormat, files: Files, name: str, module: nn.Module) -> nn.Module | None:
    names = _names_of_experts(files, name)
    assert names is not None
    if not form.is_quantised(f"{name}.0.{names[0]}"):
        raise CheckpointError(f"{name}: experts that are stored as floats are not joined; quantize_ does so")
    if why := unsupported_reason(module):
        raise CheckpointError(f"{name}: experts of {type(module).__name__} are not supported: {why}")
    gate_up, count, inner = _shapes(module)
    dtype = check_half("load_quantised", f"{name} of the model", gate_up.dtype)
    hidden = gate_up.size(-1) if gate_up.size(1) == 2 * inner else gate_up.size(1)
    first, second = [], []
    for expert in range(count):
        gate, up = (_weight(form, f"{name}.{expert}.{part}", (inner, hidden)) for part in names[:2])
        first.append(concat_outputs(gate, up))
        second.append(_weight(form, f"{name}.{expert}.{names[2]}", (hidden, inner)))
    return build_experts(name, first, second, module.act_fn, dtype)  # type: ignore[arg-type]


def _shapes(module: nn.Module) -> tuple[Tensor, int, int]:
    gate_up: Tensor = module.gate_up_proj  # type: ignore[assignment]
    down: Tensor = module.down_proj  # type: ignore[assignment]
    is_transposed = getattr(module, "is_transposed", False)
    return gate_up, gate_up.size(0), down.size(1 if is_transposed else 2)


def _plain(model: nn.Module, files: Files, replaced: dict[str, nn.Module]) -> dict[str, Tensor]:
    """Return the parameters and buffers that are loaded as they are."""
    loaded = {}
    for name, tensor in model.state_dict().items():
        if any(name.startswith(f"{module}.") for module in replaced):
            continue
        if name not in files:
            if _is_tied(model, name, files, replaced):
                continue
            raise CheckpointError(f"{files.folder}: it holds no {name}")
        stored = files.take(name)
        if stored.shape != tensor.shape:
            shapes = f"{tuple(tensor.shape)} and {tuple(stored.shape)}"
            raise CheckpointError(f"{name}: model and checkpoint must agree on its shape, got {shapes}")
        if tensor.is_floating_point() and (not stored.is_floating_point() or stored.dtype.itemsize == 1):
            raise CheckpointError(f"{name}: it is stored as {stored.dtype}, and its module cannot be replaced")
        loaded[name] = stored
    return loaded


def _is_tied_linear(model: nn.Module, linear: str, files: Files) -> bool:
    """Whether a linear is not stored because its weight is tied to another parameter."""
    stored = any(name.startswith(f"{linear}.") for name in files.names)
    return not stored and _is_tied(model, f"{linear}.weight", files, ())


def _is_tied(model: nn.Module, name: str, files: Files, replaced: Collection[str]) -> bool:
    """Whether a parameter is tied to one that is loaded, such as an output layer to the embedding."""
    named = dict(model.named_parameters(remove_duplicate=False))
    own = named.get(name)
    return own is not None and any(
        other is own and key in files and key.rpartition(".")[0] not in replaced
        for key, other in named.items()
        if key != name
    )
