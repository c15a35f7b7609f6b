"""save_quantised: what is loaded again has the same bits, and compressed-tensors reads the integers."""

import copy
import json
import warnings

import pytest
import torch
from compressed_tensors.compressors import unpack_from_int32
from graph_quant.nn import CheckpointError, load_quantised, observe, quantize_, save_quantised
from graph_quant.nn.checkpoints.extract import extract
from graph_quant.nn.recipes import W4A8, W4A16, DynamicW8A8
from safetensors.torch import load_file
from torch import nn

RECIPES = ["W8A8", "W8A8_STATIC", "W8A16", "W4A16", "W4A8", "W4A4", W4A16(32), W4A8(64)]


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(128)
        self.up, self.down = nn.Linear(128, 64), nn.Linear(64, 128, bias=False)
        self.head, self.embed = nn.Linear(128, 16, bias=False), nn.Embedding(16, 128)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.down(torch.relu(self.up(self.norm(self.embed(tokens))))))


def make(recipe, dtype):
    torch.manual_seed(0)
    model = Small().to(dtype)
    fresh = copy.deepcopy(model).npu()
    with observe(model) as seen, torch.no_grad():
        model(torch.arange(16))
    quantize_(model, recipe, lambda _, name: name != "head", observations=seen)
    return model.npu(), fresh


@pytest.mark.parametrize("form", ["msmodelslim", "compressed-tensors"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_round_trip(tmp_path, recipe, dtype, form) -> None:
    model, fresh = make(recipe, dtype)
    if recipe == "W8A8_STATIC" and form == "compressed-tensors":
        with pytest.raises(CheckpointError, match='up: static W8A8 cannot be stored exactly; use format="msmodelslim"'):
            save_quantised(model, tmp_path / "saved", form)
        assert not (tmp_path / "saved").exists()
        return
    save_quantised(model, tmp_path, form)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(1)
        loaded = load_quantised(fresh, tmp_path)
    assert (list(loaded), loaded.format.lower()) == (["up", "down"], form)
    state, other = model.state_dict(), fresh.state_dict()
    assert state.keys() == other.keys()
    for name, tensor in state.items():
        assert tensor.dtype == other[name].dtype
        assert torch.equal(tensor, other[name]), name
    tokens = torch.arange(16).npu()
    with torch.no_grad():
        assert torch.equal(model(tokens), fresh(tokens))


@pytest.mark.parametrize(("recipe", "bits"), [("W4A16", 4), ("W8A16", 8), ("W4A8", 4)])
def test_compressed_tensors_unpacks_the_integers(tmp_path, recipe, bits) -> None:
    model, _ = make(recipe, torch.bfloat16)
    tensors = load_file(save_quantised(model, tmp_path, "compressed-tensors"))
    shape = torch.Size(tensors["up.weight_shape"].tolist())
    unpacked = unpack_from_int32(tensors["up.weight_packed"], bits, shape)
    assert torch.equal(unpacked, extract("up", model.up)[0].integers.cpu())


def test_compressed_tensors_reads_the_configuration(tmp_path) -> None:
    from compressed_tensors.quantization import QuantizationConfig

    save_quantised(make(W4A16(32), torch.bfloat16)[0], tmp_path, "compressed-tensors")
    config = QuantizationConfig.model_validate(
        json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    )
    (group,) = config.config_groups.values()
    assert (group.weights.num_bits, group.weights.group_size, group.targets) == (4, 32, ["up", "down"])
    assert config.ignore == ["head"]


def test_refusals(tmp_path) -> None:
    model, fresh = make("W8A8", torch.float16)
    with pytest.raises(CheckpointError, match="Small has no quantised module"):
        save_quantised(fresh, tmp_path)
    with pytest.raises(ValueError, match="format must be one of msmodelslim, compressed-tensors, got 'gguf'"):
        save_quantised(model, tmp_path, "gguf")
    save_quantised(model, tmp_path)
    with pytest.raises(CheckpointError, match="it holds safetensors files already"):
        save_quantised(model, tmp_path)
    torch.manual_seed(0)
    smooth = Small().half()
    with observe(smooth) as seen, torch.no_grad():
        smooth(torch.arange(16))
    quantize_(smooth, DynamicW8A8(smooth=0.5), lambda _, name: name == "up", observations=seen)
    with pytest.raises(CheckpointError, match="up: smoothing scales are not part of the format"):
        save_quantised(smooth, tmp_path / "other")


@pytest.mark.parametrize(
    ("recipe", "error", "message"),
    [
        ("W8A9", ValueError, "got 'W8A9'; did you mean W8A8"),
        ("nonsense", ValueError, "recipe must be one of W8A8, "),
        (8, TypeError, "recipe must be a recipe or its name, got 8"),
    ],
)
def test_recipes_by_name(recipe, error, message) -> None:
    with pytest.raises(error, match=message):
        quantize_(Small().half(), recipe)


def test_save_pretrained_warns(tmp_path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 32}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)).half()
    quantize_(model, "w8a8", lambda _, name: "lm_head" not in name)
    with pytest.warns(UserWarning, match="save_pretrained: this model is quantised; .*save_quantised"):
        model.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LlamaForCausalLM(model.config).save_pretrained(tmp_path / "float")
