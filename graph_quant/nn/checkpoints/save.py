"""``save_quantised``: writes a quantised model as a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from graph_quant.nn.checkpoints.extract import extract, has_derived_assist, is_quantised
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from torch import Tensor, nn

_SUFFIXES = {Activations.STATIC: "", Activations.DYNAMIC: "_DYNAMIC", Activations.FLOAT: ""}


def save_quantised(model: nn.Module, folder: str | Path, format: str = "msmodelslim") -> Path:  # noqa: A002
    """Save a quantised model, so that `load_quantised` gives the same bits.

    Args:
        model: A model with quantised linears. Other parameters and buffers are saved as they are.
        folder: The folder, which is created; it must not hold safetensors files.
        format: ``"msmodelslim"`` or ``"compressed-tensors"``. The latter would round the scales of results that
            static activations have, so that they are refused.

    Returns:
        The path of the safetensors file.

    Raises:
        ValueError: ``format`` is unknown.
        CheckpointError: No module is quantised, or one cannot be stored exactly; nothing is written then.

    Examples:
        >>> quantize_(model, "W8A8")
        >>> save_quantised(model, "model-w8a8")
        >>> load_quantised(build_model(), "model-w8a8")
    """
    if format not in _FORMATS:
        raise ValueError(f"save_quantised: format must be one of {', '.join(_FORMATS)}, got {format!r}")
    target = Path(folder)
    if any(target.glob("*.safetensors")):
        raise CheckpointError(f"{target}: it holds safetensors files already; name an empty folder")
    quantised = {name: module for name, module in model.named_modules() if is_quantised(module)}
    if not quantised:
        raise CheckpointError(f"{type(model).__name__} has no quantised module; quantize_ replaces modules")
    tensors, described = _FORMATS[format](model, {name: extract(name, module) for name, module in quantised.items()})
    plain = _plain_tensors(model, quantised)
    target.mkdir(parents=True, exist_ok=True)
    _write_config(model, target, described.get("config.json", {}))
    if description := described.get("quant_model_description.json"):
        description.update(dict.fromkeys(plain, "FLOAT"))
        _write_json(target / "quant_model_description.json", description)
    from safetensors.torch import save_file

    path = target / "model.safetensors"
    save_file({name: tensor.cpu().contiguous() for name, tensor in {**tensors, **plain}.items()}, path)
    return path


def _plain_tensors(model: nn.Module, quantised: dict[str, nn.Module]) -> dict[str, Tensor]:
    """The tensors outside of quantised modules; of tied ones, the first."""
    tensors: dict[str, Tensor] = {}
    stored: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if any(name.startswith(f"{module}.") for module in quantised) or (tensor.numel() and key in stored):
            continue
        stored.add(key)
        tensors[name] = tensor.detach().clone()
    return tensors


Weights = dict[str, tuple[Stored, Tensor | None]]
Written = tuple[dict[str, Tensor], dict[str, dict[str, Any]]]


def _msmodelslim(model: nn.Module, weights: Weights) -> Written:
    tensors: dict[str, Tensor] = {}
    description: dict[str, Any] = {}
    half = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), torch.bfloat16)
    for name, (stored, bias) in weights.items():
        parts = {"weight": stored.integers, "weight_scale": stored.scale}
        parts["weight_offset"] = torch.zeros_like(stored.scale)
        if stored.activations is Activations.STATIC:
            assert stored.input_scale is not None
            assert stored.input_offset is not None
            assert stored.result_scale is not None
            assert stored.integer_bias is not None
            # float16 stores the bits of float32, as npu_quant_matmul reads them.
            bits = stored.result_scale.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
            parts["deq_scale"] = bits if half == torch.float16 else stored.result_scale
            parts |= {"input_scale": stored.input_scale, "input_offset": stored.input_offset}
            parts["quant_bias"] = stored.integer_bias
        if stored.assist is not None and not has_derived_assist(stored):
            parts["scale_bias"] = stored.assist.unsqueeze(1)
        if bias is not None:
            parts["bias"] = bias
        scheme = f"{stored.name}{_SUFFIXES[stored.activations]}"
        for part, tensor in parts.items():
            tensors[f"{name}.{part}"] = tensor
            description[f"{name}.{part}"] = scheme
        description["model_quant_type"] = scheme
        description["group_size"] = stored.group_size or 0
    return tensors, {"quant_model_description.json": description}


def _compressed_tensors(model: nn.Module, weights: Weights) -> Written:
    tensors: dict[str, Tensor] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name, (stored, bias) in weights.items():
        if stored.activations is Activations.STATIC:
            raise CheckpointError(f'{name}: static W8A8 cannot be stored exactly; use format="msmodelslim"')
        if stored.assist is not None and not has_derived_assist(stored):
            raise CheckpointError(f'{name}: its correction term cannot be stored; use format="msmodelslim"')
        is_packed = stored.bits == 4 or stored.activations is Activations.FLOAT
        if is_packed:
            tensors[f"{name}.weight_packed"] = _pack(stored.integers, stored.bits)
            tensors[f"{name}.weight_shape"] = torch.tensor(stored.integers.shape)
        else:
            tensors[f"{name}.weight"] = stored.integers
        tensors[f"{name}.weight_scale"] = stored.scale
        if bias is not None:
            tensors[f"{name}.bias"] = bias
        scheme = _scheme(stored, "pack-quantized" if is_packed else "int-quantized")
        groups.setdefault(json.dumps(scheme), {**scheme, "targets": []})["targets"].append(name)
    formats = {group["format"] for group in groups.values()}
    config = {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "config_groups": {f"group_{index}": group for index, group in enumerate(groups.values())},
        "ignore": [name for name, module in model.named_modules() if isinstance(module, nn.Linear)],
    }
    return tensors, {"config.json": {"quantization_config": config}}


def _scheme(stored: Stored, layout: str) -> dict[str, Any]:
    grouping = {"strategy": "channel"} if stored.group_size is None else {"strategy": "group"}
    weights = {"num_bits": stored.bits, "type": "int", "symmetric": True, "dynamic": False, **grouping}
    weights["group_size"] = stored.group_size
    inputs = None
    if stored.activations is Activations.DYNAMIC:
        inputs = {"num_bits": stored.activation_bits, "type": "int", "symmetric": True, "dynamic": True}
        inputs["strategy"] = "token"
    return {"weights": weights, "input_activations": inputs, "output_activations": None, "format": layout}


def _pack(integers: Tensor, bits: int) -> Tensor:
    """Pack along the input channels into int32, each element plus half its range, the first in the lowest bits."""
    each_word = 32 // bits
    rows, inputs = integers.shape
    padded = torch.nn.functional.pad(integers.to(torch.int64) + (1 << (bits - 1)), (0, -inputs % each_word))
    shifts = torch.arange(0, 32, bits, device=integers.device)
    words = (padded.reshape(rows, -1, each_word) << shifts).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


_FORMATS: dict[str, Callable[[nn.Module, Weights], Written]] = {
    "msmodelslim": _msmodelslim,
    "compressed-tensors": _compressed_tensors,
}


def _write_config(model: nn.Module, folder: Path, added: dict[str, Any]) -> None:
    """Write the model's own configuration, if it has one, with what the format adds."""
    to_dict = getattr(getattr(model, "config", None), "to_dict", None)
    own = json.loads(model.config.to_json_string(use_diff=False)) if to_dict is not None else {}  # type: ignore[operator, union-attr]
    if own or added:
        _write_json(folder / "config.json", {**own, **added})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
