"""load_quantised: a loaded model computes with the weights of the checkpoint, checked against dequantised ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from graph_quant.nn import CheckpointError, load_quantised
from safetensors.torch import save_file
from torch import Tensor, nn

from support.experts import Experts

K, N = 128, 64
Linears = dict[str, tuple[int, int]]


class Model(nn.Module):
    """A linear of each kind, whose results are compared one by one, an embedding and a norm."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, K)
        self.norm = nn.LayerNorm(K)
        self.layers = nn.ModuleDict({name: nn.Linear(K, N, bias="bias" in name) for name in names})

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.embed(tokens))
        return {name: layer(x) for name, layer in self.layers.items()}


def plain_tensors(model: Model) -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {
        name: torch.randn(tensor.shape) * 0.5
        for name, tensor in model.state_dict().items()
        if not name.startswith("layers.") or name.endswith(".bias")
    }


def integers(bits: int, shape: tuple[int, int] = (N, K)) -> Tensor:
    high = 2 ** (bits - 1) - 1
    return torch.randint(-high, high + 1, shape, dtype=torch.int8)


def scales(groups: int = 1, outputs: int = N) -> Tensor:
    return torch.rand(outputs, groups) * 0.01 + 0.002


def restored(elements: Tensor, scale: Tensor) -> Tensor:
    return elements.float() * scale.float().repeat_interleave(elements.size(1) // scale.size(1), 1)


def check(model: Model, tensors: dict[str, Tensor], expected: dict[str, Tensor], bound: float) -> None:
    """Compare each layer with float32 and the dequantised weight; ``bound`` is relative to the largest result."""
    tokens = torch.arange(4)
    got = model(tokens.to(model.embed.weight.device))
    half = {name: tensor.to(torch.bfloat16).float() for name, tensor in tensors.items() if tensor.is_floating_point()}
    x = nn.functional.layer_norm(half["embed.weight"][tokens], (K,), half["norm.weight"], half["norm.bias"])
    for name, weight in expected.items():
        y = x @ weight.T + half.get(f"layers.{name}.bias", torch.zeros(()))
        error = (got[name].float().cpu() - y).abs().max() / y.abs().max()
        assert error < bound, (name, error.item())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def make(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None, **files: object) -> Path:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "a.safetensors", metadata)
        for name, content in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        return tmp_path

    return make


def msmodelslim(model: Model) -> tuple[dict[str, Tensor], dict[str, str], dict[str, Tensor]]:
    """Tensors and description as msModelSlim names them, written from its documents; and the weights restored."""
    torch.manual_seed(0)
    tensors, expected = plain_tensors(model), {}
    description = dict.fromkeys(tensors, "FLOAT")
    for name in model.layers:
        prefix = f"layers.{name}"
        scheme = "FLOAT" if name == "plain" else name.removesuffix("_bias").upper()
        description[f"{prefix}.weight"] = scheme
        if scheme == "FLOAT":
            expected[name] = tensors[f"{prefix}.weight"] = torch.randn(N, K) * 0.1
            expected[name] = expected[name].bfloat16().float()
            continue
        bits = int(scheme[1])
        elements, scale = integers(bits), scales()
        expected[name] = restored(elements, scale)
        if scheme == "W4A8_DYNAMIC":  # two to an int8, along the output channels
            pairs = elements.reshape(N // 2, 2, K)
            tensors[f"{prefix}.weight"] = (pairs[:, 0] & 15) | (pairs[:, 1] << 4)
            tensors[f"{prefix}.scale_bias"] = (8 * expected[name].sum(1, keepdim=True)).float()
        else:
            tensors[f"{prefix}.weight"] = elements
        tensors[f"{prefix}.weight_scale"] = scale
        tensors[f"{prefix}.weight_offset"] = torch.zeros_like(scale)
        if scheme == "W8A8":
            step, offset = torch.tensor([0.03]), torch.tensor([7], dtype=torch.int8)
            tensors |= {f"{prefix}.input_scale": step, f"{prefix}.input_offset": offset}
            tensors[f"{prefix}.deq_scale"] = (step * scale[:, 0]).float()
            tensors[f"{prefix}.quant_bias"] = (-7 * elements.sum(1, dtype=torch.int64)).to(torch.int32)
    return tensors, description, expected


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_msmodelslim(write, device: str) -> None:
    names = ["w8a8", "w8a8_dynamic", "w8a8_dynamic_bias", "w8a16", "w4a16", "w4a8_dynamic", "plain"]
    model = Model(names).bfloat16().to(device)
    tensors, description, expected = msmodelslim(model)
    loaded = load_quantised(model, write(tensors, quant_model_description=description))
    assert loaded.format == "msModelSlim"
    assert [type(layer).__name__ for layer in model.layers.values()] == [
        "StaticW8A8Linear",
        "DynamicW8A8Linear",
        "DynamicW8A8Linear",
        "W8A16Linear",
        "W4A16Linear",
        "W4A8Linear",
        "Linear",
    ]
    assert len(loaded) == 6
    with torch.no_grad():
        # int8 activations are off by half a step of at most 1/127, weights in bfloat16 by 2^-9
        check(model, tensors, expected, 0.05)


def test_a_float16_checkpoint_stores_scales_as_bits(write) -> None:
    model = Model(["w8a8"]).half()
    tensors, description, _ = msmodelslim(model)
    bits = tensors["layers.w8a8.deq_scale"].view(torch.int32).to(torch.int64)
    kept = tensors["layers.w8a8.deq_scale"].clone()
    tensors["layers.w8a8.deq_scale"] = bits
    load_quantised(model, write(tensors, quant_model_description=description))
    assert torch.equal(model.layers["w8a8"].scale, kept)


def test_scales_of_kv_caches_are_returned(write) -> None:
    model = Model(["w8a8_dynamic"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    tensors |= {"layers.w8a8_dynamic.kv_cache_scale": scales(), "layers.w8a8_dynamic.kv_cache_offset": scales() * 0}
    loaded = load_quantised(model, write(tensors, quant_model_description=description))
    assert set(loaded.caches["layers.w8a8_dynamic"]) == {"scale", "offset"}


def test_compressed_tensors(write) -> None:
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    torch.manual_seed(0)
    model = Model(["dynamic", "static", "packed", "packed_bias", "plain"]).bfloat16()
    tensors, expected = plain_tensors(model), {}
    for name in ("dynamic", "static"):
        elements, scale = integers(8), scales()
        tensors |= {f"layers.{name}.weight": elements, f"layers.{name}.weight_scale": scale}
        expected[name] = restored(elements, scale)
    tensors["layers.static.input_scale"] = torch.tensor([0.03])
    tensors["layers.static.input_zero_point"] = torch.tensor([-3], dtype=torch.int8)
    for name in ("packed", "packed_bias"):
        elements, scale = integers(4), scales(K // 32)
        tensors[f"layers.{name}.weight_packed"] = pack_to_int32(elements, 4)
        tensors[f"layers.{name}.weight_shape"] = torch.tensor([N, K])
        tensors[f"layers.{name}.weight_scale"] = scale.bfloat16()
        expected[name] = restored(elements, scale.bfloat16())
    tensors["layers.plain.weight"] = torch.randn(N, K)
    expected["plain"] = tensors["layers.plain.weight"].bfloat16().float()
    by_channel = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
    inputs = {"num_bits": 8, "type": "int", "symmetric": True}
    groups = {
        "a": {
            "targets": ["re:.*dynamic$"],
            "weights": by_channel,
            "input_activations": {**inputs, "dynamic": True, "strategy": "token"},
        },
        "b": {
            "targets": ["layers.static"],
            "weights": by_channel,
            "input_activations": {**inputs, "dynamic": False, "strategy": "tensor"},
        },
        "c": {"targets": ["Linear"], "weights": {**by_channel, "num_bits": 4, "strategy": "group", "group_size": 32}},
    }
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": groups,
        "ignore": ["layers.plain"],
    }
    loaded = load_quantised(model, write(tensors, config={"quantization_config": config}))
    assert loaded == ["layers.dynamic", "layers.static", "layers.packed", "layers.packed_bias"]
    with torch.no_grad():
        check(model, tensors, expected, 0.05)


def test_torchao(write) -> None:
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        PerGroup,
        quantize_,
    )

    torch.manual_seed(0)
    source, model = (Model(["dynamic", "weights_bias", "int4", "plain"]).bfloat16() for _ in range(2))
    by_group = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    quantize_(source, by_group, lambda _, name: name == "layers.int4")
    quantize_(source, Int8DynamicActivationInt8WeightConfig(), lambda _, name: name == "layers.dynamic")
    quantize_(source, Int8WeightOnlyConfig(version=2), lambda _, name: name == "layers.weights_bias")
    state = {name: tensor.data for name, tensor in source.state_dict().items()}
    tensors, metadata = flatten_tensor_state_dict(state)
    loaded = load_quantised(model, write(tensors, metadata))
    assert loaded == ["layers.dynamic", "layers.weights_bias", "layers.int4"]
    expected = {
        name: restored(tensors[f"layers.{name}._weight_qdata"], tensors[f"layers.{name}._weight_scale"].float())
        for name in ("dynamic", "weights_bias", "int4")
    }
    with torch.no_grad():
        check(model, tensors, {**expected, "plain": tensors["layers.plain.weight"].float()}, 0.05)


@pytest.mark.parametrize("scheme", ["W8A8_DYNAMIC", "W4A8_DYNAMIC", "W4A16"])
def test_experts(write, scheme: str) -> None:
    torch.manual_seed(0)
    count, hidden, inside, bits = 4, K, 64, int(scheme[1])
    model = nn.ModuleDict({"experts": Experts(torch.bfloat16, count, hidden, inside)})
    tensors, description = {}, {}
    gate_ups, downs = [], []
    for expert in range(count):
        weights = {}
        for part, shape in {"gate": (inside, hidden), "up": (inside, hidden), "down": (hidden, inside)}.items():
            name = f"experts.{expert}.{part}_proj"
            elements, scale = integers(bits, shape), scales(1, shape[0]).bfloat16()
            tensors |= {f"{name}.weight": elements, f"{name}.weight_scale": scale}
            description[f"{name}.weight"] = scheme
            weights[part] = restored(elements, scale)
        gate_ups.append(torch.cat([weights["gate"], weights["up"]]))
        downs.append(weights["down"])
    assert load_quantised(model, write(tensors, quant_model_description=description)) == ["experts"]
    x, chosen = torch.randn(6, hidden).bfloat16(), torch.randint(0, count, (6, 2))
    share = torch.rand(6, 2).bfloat16()
    with torch.no_grad():
        got = model["experts"](x, chosen, share).float()
    expected = torch.zeros(6, hidden)
    for row in range(6):
        for expert, part in zip(chosen[row], share[row], strict=True):
            gate, up = (gate_ups[expert] @ x[row].float()).chunk(2)
            expected[row] += part.float() * (downs[expert] @ (nn.functional.silu(gate) * up))
    assert (got - expected).abs().max() / expected.abs().max() < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, d: d.update({"layers.w8a16.weight": "W2A16"}), "layers.w8a16.weight: its scheme W2A16 is not among"),
        (lambda t, _: t.pop("layers.w8a16.weight_scale"), "holds no layers.w8a16.weight_scale"),
        (lambda t, _: t.update({"layers.w8a16.strange": torch.ones(1)}), "not understood: layers.w8a16.strange"),
        (lambda t, _: t["layers.w8a16.weight_offset"].add_(1), "layers.w8a16.weight_offset: it must be zero"),
        (lambda t, _: t.pop("norm.weight"), "holds no norm.weight"),
        (
            lambda t, _: t.update({"layers.w8a16.weight_scale": torch.ones(7)}),
            "w8a16.weight_scale: it must have as many",
        ),
        (lambda t, _: t["layers.w8a16.weight_scale"].fill_(float("nan")), "layers.w8a16: its scale must be finite"),
        (lambda t, _: t.update({"layers.w8a16.weight": torch.ones(3, 3, dtype=torch.int8)}), "must be of shape"),
        (lambda t, _: t.update({"layers.w8a16.bias": torch.ones(N)}), "not understood: layers.w8a16.bias"),
        (lambda t, _: t.pop("layers.w4a16_bias.bias"), "holds no layers.w4a16_bias.bias"),
        (lambda t, _: t.update({"layers.w4a16_bias.bias": torch.ones(3)}), "w4a16_bias.bias: model and checkpoint"),
        (lambda t, _: t["layers.w4a16_bias.weight"].fill_(8), "integers of 4 bits must lie in"),
        (lambda t, _: t.update({"layers.w8a8.input_scale": torch.rand(K)}), "w8a8.input_scale: it must be one value"),
        (lambda t, _: t["layers.w8a8.input_scale"].zero_(), "layers.w8a8: its scale of inputs must be above 0"),
        (lambda t, _: t.update({"layers.w8a8.quant_bias": torch.ones(3)}), "its integer bias must have 64 elements"),
        (lambda t, _: t["layers.w8a8.weight_offset"].add_(1), "layers.w8a8.weight_offset: it must be zero"),
        (
            lambda t, _: t.update({"layers.w8a16.weight_scale": scales().view(torch.int32).long()}),
            "w8a16.weight_scale: it must be of floats, got torch.int64",
        ),
        (lambda t, _: t.update({"layers.w8a8.quant_bias": torch.full((N,), 0.5)}), "it must be of whole numbers"),
        (
            lambda t, _: t.update({"layers.w8a8.input_offset": torch.tensor([200.0])}),
            "its offset of inputs must be an integer of 8 bits",
        ),
        (
            lambda t, _: t.update({"norm.weight": torch.ones(K).to(torch.float8_e4m3fn)}),
            "norm.weight: it is stored as torch.float8_e4m3fn",
        ),
        (lambda _, d: d.clear(), "no quant_method; understood are msModelSlim, compressed-tensors and torchao"),
    ],
    ids=[
        *(
            "unknown scheme",
            "no scale",
            "unknown tensor",
            "weight offset",
            "no norm",
            "short scale",
            "NaN scale",
            "weight shape",
            "unexpected bias",
        ),
        *(
            "no bias",
            "short bias",
            "int4 out of range",
            "input scale by channel",
            "zero input scale",
            "short quant_bias",
        ),
        *(
            "W8A8 weight offset",
            "int64 scale",
            "fractional quant_bias",
            "large input offset",
            "float8 norm",
            "unknown format",
        ),
    ],
)
def test_unknown_contents_are_named_and_the_model_is_unchanged(write, change, message: str) -> None:
    model = Model(["w8a16", "w4a16_bias", "w8a8"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    change(tensors, description)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=message):
        load_quantised(model, write(tensors, quant_model_description=description))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def compressed_config(
    weights: dict[str, object], inputs: dict[str, object] | None, **rest: object
) -> dict[str, object]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, **rest}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": group}}


INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
TOKENS = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": True, "strategy": "token"}


@pytest.mark.parametrize(
    ("config", "more", "message"),
    [
        (compressed_config({**INT4, "strategy": "block"}, None), {}, "its strategy block is not among"),
        (compressed_config({**INT4, "group_size": 64}, None), {}, "group of 64 must have 2 for each row, got 4"),
        (compressed_config(INT4, {**TOKENS, "type": "float"}), {}, "activations must be integers"),
        (compressed_config(INT4, {**TOKENS, "dynamic": False}), {}, "stored scales must be of a tensor of 8 bits"),
        (compressed_config(INT4, {**TOKENS, "strategy": "group"}), {}, "must be symmetric and by token"),
        (compressed_config({**INT4, "symmetric": False}, None), {}, "weights must be symmetric integers"),
        (compressed_config(INT4, None, output_activations=TOKENS), {}, "output_activations are not supported"),
        (
            compressed_config(INT4, None),
            {"weight_scale": scales(N // 4, 4 * 4)},
            "weight_scale: it must have as many",
        ),
        (compressed_config(INT4, None), {"weight_shape": torch.tensor([N, 2 * K])}, "weight_shape: it must be"),
        (compressed_config(INT4, None), {"weight_packed": torch.ones(N, 9, dtype=torch.int32)}, "does not hold"),
        (
            compressed_config(INT4, None),
            {"weight_g_idx": torch.arange(K).flip(0) // 32},
            "weight_g_idx: weights with it",
        ),
        ({**compressed_config(INT4, None), "format": "mixed-precision"}, {}, "its format None is not among"),
        (
            {**compressed_config(INT4, None), "transform_config": {"config_groups": {"R": {}}}},
            {},
            "its transform_config rotates activations",
        ),
        (
            {**compressed_config(INT4, None), "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            {},
            "its kv_cache_scheme must be symmetric static int8",
        ),
        (
            {**compressed_config(INT4, None), "kv_cache_scheme": {"num_bits": 8, "type": "int"}},
            {},
            "holds no k_scale and v_scale",
        ),
        (compressed_config(INT4, {**TOKENS, "dynamic": "local"}), {}, "must be True or False, got 'local'"),
        (
            compressed_config(INT4, None),
            {"weight_zero_point": torch.ones(8, 4, dtype=torch.int32)},
            "weights with it are",
        ),
    ],
    ids=[
        *(
            "block strategy",
            "group size",
            "float activations",
            "static by token",
            "activations by group",
            "asymmetric",
            "outputs",
        ),
        *("transposed scale", "shape", "packed shape", "g_idx order", "no format", "rotations", "float8 cache"),
        *("cache without scales", "dynamic local", "zero points"),
    ],
)
def test_schemes_of_compressed_tensors_that_are_not_supported_are_named(write, config, more, message: str) -> None:
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    model = Model(["int4"]).bfloat16()
    tensors = plain_tensors(model)
    parts = {"weight_packed": pack_to_int32(integers(4), 4), "weight_scale": scales(K // 32), **more}
    tensors |= {f"layers.int4.{part}": tensor for part, tensor in parts.items()}
    with pytest.raises(CheckpointError, match=message):
        load_quantised(model, write(tensors, config={"quantization_config": config}))


def test_the_most_specific_target_of_compressed_tensors_wins(write) -> None:
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    model = Model(["int8", "int4"]).bfloat16()
    tensors, int8, int4 = plain_tensors(model), integers(8), integers(4)
    tensors |= {"layers.int8.weight": int8, "layers.int8.weight_scale": (wide := scales())}
    tensors |= {"layers.int4.weight_packed": pack_to_int32(int4, 4), "layers.int4.weight_scale": (narrow := scales(4))}
    config = {**compressed_config({**INT4, "num_bits": 8, "strategy": "channel"}, TOKENS), "format": "mixed-precision"}
    groups = config["config_groups"]
    groups["a"]["format"] = "int-quantized"
    groups["b"] = {"targets": ["re:.*int4"], "weights": INT4, "format": "pack-quantized"}
    load_quantised(model, write(tensors, config={"quantization_config": config}))
    assert [type(layer).__name__ for layer in model.layers.values()] == ["DynamicW8A8Linear", "W4A16Linear"]
    with torch.no_grad():
        check(model, tensors, {"int8": restored(int8, wide), "int4": restored(int4, narrow.bfloat16())}, 0.05)


def test_a_tied_output_layer_is_loaded_once(write) -> None:
    def tied() -> nn.ModuleDict:
        model = nn.ModuleDict({"embed": nn.Embedding(N, K), "inner": nn.Linear(K, N, bias=False)})
        model["head"] = nn.Linear(K, N, bias=False)
        model["head"].weight = model["embed"].weight
        return model.bfloat16()

    elements, scale, embedding = integers(8), scales(), torch.randn(N, K).bfloat16()
    inner = {"inner.weight": elements, "inner.weight_scale": scale}
    description = {"inner.weight": "W8A8_DYNAMIC", "embed.weight": "FLOAT"}
    model = tied()
    folder = write({**inner, "embed.weight": embedding}, quant_model_description=description)
    assert load_quantised(model, folder) == ["inner"]
    assert model["head"].weight is model["embed"].weight
    assert torch.equal(model["embed"].weight, embedding)
    stored = {**inner, "head.weight": elements.clone(), "head.weight_scale": scale.clone()}
    with pytest.raises(CheckpointError, match=r"holds no embed\.weight"):
        load_quantised(tied(), write(stored, quant_model_description={**description, "head.weight": "W8A8_DYNAMIC"}))


def test_a_model_on_the_meta_device_needs_a_device(write) -> None:
    model = Model(["w8a16"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    with pytest.raises(CheckpointError, match=r"embed\.weight of the model has no storage: give the device"):
        load_quantised(model.to("meta"), write(tensors, quant_model_description=description))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_model_on_the_meta_device_is_loaded_to_a_device(write, device: str) -> None:
    model, expected = Model(["w8a8_dynamic", "float_bias"]).bfloat16(), Model(["w8a8_dynamic", "float_bias"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    folder = write(tensors, quant_model_description=description)
    load_quantised(expected, folder)
    names = load_quantised(model.to("meta").eval(), folder, device=device)
    assert names == ["layers.w8a8_dynamic"]
    state = model.state_dict()
    assert {tensor.device.type for tensor in state.values()} == {device}
    assert all(torch.equal(tensor.cpu(), state[name].cpu()) for name, tensor in expected.state_dict().items())
    assert model.embed.weight.requires_grad


def test_tied_parameters_on_the_meta_device_stay_tied(write) -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(N, K), "inner": nn.Linear(K, N), "head": nn.Linear(K, N, bias=False)})
    model.bfloat16()["head"].weight = model["embed"].weight
    inner = {"inner.weight": integers(8), "inner.weight_scale": scales(), "inner.bias": torch.zeros(N)}
    embedding = torch.randn(N, K).bfloat16()
    description = {"inner.weight": "W8A8_DYNAMIC", "embed.weight": "FLOAT"}
    folder = write({**inner, "embed.weight": embedding}, quant_model_description=description)
    with torch.device("meta"):
        empty = nn.Embedding(N, K, dtype=torch.bfloat16)
    model["embed"].weight = model["head"].weight = empty.weight
    load_quantised(model, folder, device="cpu")
    assert model["head"].weight is model["embed"].weight
    assert torch.equal(model["embed"].weight, embedding)


def test_a_buffer_that_no_checkpoint_holds_must_have_storage(write) -> None:
    model = Model(["w8a16"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    model.register_buffer("frequencies", torch.ones(2), persistent=False)
    folder = write(tensors, quant_model_description=description)
    with pytest.raises(CheckpointError, match="frequencies of the model is a buffer without storage"):
        load_quantised(model.to("meta"), folder, device="cpu")
    model.frequencies = torch.ones(2)
    load_quantised(model, folder, device="cpu")
    assert model.frequencies.tolist() == [1, 1]


def test_damaged_files_and_duplicate_tensors_are_refused(write) -> None:
    model = Model(["w8a16"]).bfloat16()
    tensors, description, _ = msmodelslim(model)
    folder = write(tensors, quant_model_description=description)
    save_file({"norm.weight": torch.ones(K)}, folder / "b.safetensors")
    with pytest.raises(CheckpointError, match=r"two of its files hold norm\.weight"):
        load_quantised(model, folder)
    (folder / "b.safetensors").write_bytes(b"\x08")
    with pytest.raises(CheckpointError, match=r"b\.safetensors: it is no safetensors file"):
        load_quantised(model, folder)
    (folder / "b.safetensors").unlink()
    (folder / "quant_model_description.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"quant_model_description\.json: it must be an object"):
        load_quantised(model, folder)


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nosuch: there is no such folder"):
        load_quantised(Model(["w8a16"]), tmp_path / "nosuch")
    with pytest.raises(CheckpointError, match="it holds no safetensors files"):
        load_quantised(Model(["w8a16"]), tmp_path)
