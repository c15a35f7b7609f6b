"""search: the recipe keeps its budget, is no worse than any single scheme, and can be saved and read."""

from __future__ import annotations

import copy
import itertools
import json
import math

import graph_quant  # noqa: F401
import pytest
import torch
import torch_npu  # noqa: F401
from graph_quant.nn import Budget, Mixed, compare, quantize_, search
from torch import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 128)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(128, 64)).half().npu().eval()
    with torch.no_grad():
        model[1].down.weight[0] *= 40  # the rest of its row has few steps left
        model[0].up.weight[:, 3] *= 30
    return model, [torch.randn(4, 128).half().npu() for _ in range(2)]


def size_of(model: nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def apply(model: nn.Module, recipe) -> nn.Module:
    quantised = copy.deepcopy(model)
    quantize_(quantised, recipe)
    return quantised


@pytest.mark.parametrize("wanted", [15.0, 25.0, 38.0])
def test_an_sqnr_is_kept_with_few_bytes(case, wanted: float) -> None:
    model, samples = case
    result = search(model, samples, Budget(sqnr=wanted))
    quantised = apply(model, result.recipe)
    assert compare(model, quantised, samples).output.sqnr == pytest.approx(result.sqnr)
    assert result.sqnr >= wanted
    assert result.size == size_of(quantised)
    assert result.float_size == size_of(model)
    for scheme in ("W4A8", "W8A16"):
        whole = apply(model, scheme)
        if compare(model, whole, samples).output.sqnr >= wanted:
            assert result.size <= size_of(whole)


@pytest.mark.parametrize("share", [0.35, 0.5, 0.75])
def test_a_size_is_kept(case, share: float) -> None:
    model, samples = case
    result = search(model, samples, Budget(size=share))
    assert result.size <= share * size_of(model)
    assert result.size == size_of(apply(model, result.recipe))


def test_more_bytes_are_no_worse(case) -> None:
    model, samples = case
    results = [search(model, samples, Budget(size=share)) for share in (0.35, 0.45, 0.6, 1.0)]
    assert [result.sqnr for result in results] == sorted(result.sqnr for result in results)
    assert (results[-1].sqnr, dict(results[-1].recipe.schemes)) == (math.inf, {})


def test_no_choice_that_is_good_enough_is_much_smaller(case) -> None:
    model = nn.Sequential(case[0][0], case[0][2])
    samples = case[1]
    result = search(model, samples, Budget(sqnr=30))
    for schemes in itertools.product(("W4A8", "W8A16", None), repeat=3):
        chosen = {name: scheme for name, scheme in zip(("0.up", "0.down", "1"), schemes, strict=True) if scheme}
        if chosen:
            quantised = apply(model, Mixed(chosen))
            if compare(model, quantised, samples).output.sqnr >= 30:
                assert size_of(quantised) >= 0.9 * result.size, chosen


def test_a_tied_embedding_stays() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 64), nn.Linear(64, 64), nn.Linear(64, 64, bias=False)).half().npu().eval()
    model[2].weight = model[0].weight
    result = search(model, [torch.arange(8).view(1, 8).npu()], Budget(size=0.9))
    assert result.size == size_of(apply(model, result.recipe))
    assert "2" not in result.recipe.schemes, "it would need the embedding and its own integers"


def test_what_engines_join_gets_one_scheme(case) -> None:
    torch.manual_seed(0)
    attention = nn.ModuleDict({name: nn.Linear(128, 128) for name in ("q_proj", "k_proj", "v_proj")})

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn = attention

        def forward(self, x):
            return sum(linear(x) for linear in self.self_attn.values())

    model = Attention().half().npu().eval()
    with torch.no_grad():
        model.self_attn["k_proj"].weight[:, 0] *= 60
    schemes = search(model, case[1], Budget(sqnr=25)).recipe.schemes
    assert len(set(schemes.values())) <= 1
    apart = search(model, case[1], Budget(sqnr=25), together=str).recipe.schemes
    assert len(set(apart.values())) > 1


def test_the_recipe_is_saved_and_read(case, tmp_path) -> None:
    model, samples = case
    result = search(model, samples, Budget(sqnr=25), schemes=("W4A8", "W8A8"))
    path = tmp_path / "recipe.json"
    result.recipe.save(path)
    assert Mixed.read(path) == Mixed(dict(result.recipe.schemes))
    assert set(result.recipe.schemes.values()) <= {"W4A8", "W8A8"}
    one, two = apply(model, result.recipe), apply(model, str(path))
    with torch.no_grad():
        assert torch.equal(one(samples[0]), two(samples[0]))
    assert f"SQNR {result.sqnr:.1f} dB" in list(result.lines())[-1]
    path.write_text(json.dumps({"schemes": {}}))
    with pytest.raises(ValueError, match="it is no recipe of graph_quant"):
        Mixed.read(path)
    with pytest.raises(ValueError, match=r"Sequential has no module 3\.up, which the recipe names"):
        apply(model, Mixed({"0.up": "W8A8", "3.up": "W8A8"}))
    with pytest.raises(ValueError, match="the scheme of up must be one of"):
        Mixed({"up": "W3A3"})


def test_progress_and_refusals(case) -> None:
    model, samples = case
    shares: list[float] = []
    search(model, samples, Budget(sqnr=25), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(ValueError, match="more than the budget of 1,000"):
        search(model, samples, Budget(size=1000))
    with pytest.raises(ValueError, match="samples must not be empty"):
        search(model, [], Budget(sqnr=25))
    with pytest.raises(ValueError, match="either size or sqnr"):
        Budget()
    with pytest.raises(ValueError, match="no module of Sequential can be quantised"):
        search(nn.Sequential(nn.ReLU()), samples, Budget(sqnr=25))


def test_perplexity_of_tokens() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 64), nn.Linear(64, 64)).half().npu().eval()
    tokens = torch.randint(0, 64, (2, 9)).npu()
    result = compare(model, apply(model, "W8A8"), [tokens])
    assert result.perplexity is not None
    with torch.no_grad():
        logits = model(tokens)[:, :-1].float().cpu()
    expected = torch.nn.functional.cross_entropy(logits.reshape(16, 64), tokens[:, 1:].reshape(-1).cpu()).exp()
    assert result.perplexity[0] == pytest.approx(expected.item())
    assert f"perplexity {result.perplexity[0]:.5g} and " in list(result.lines())[-1]
    assert json.loads(result.to_json())["perplexity"] == list(result.perplexity)


def test_perplexity_leaves_padding_out() -> None:
    class Padded(nn.Sequential):
        def forward(self, input_ids, attention_mask):  # noqa: ARG002
            return super().forward(input_ids)

    torch.manual_seed(0)
    model = Padded(nn.Embedding(64, 64), nn.Linear(64, 64)).half().npu().eval()
    tokens = torch.randint(0, 64, (1, 9)).npu()
    mask = torch.ones_like(tokens)
    mask[:, 6:] = 0
    quantised = apply(model, "W8A8")
    padded = compare(model, quantised, [{"input_ids": tokens, "attention_mask": mask}]).perplexity
    short = compare(model, quantised, [{"input_ids": tokens[:, :6], "attention_mask": mask[:, :6]}]).perplexity
    assert padded == pytest.approx(short)
