"""Quantised decoders from transformers' configs: a GE graph for prompts of every length and one for decode steps."""

import importlib
import os
from statistics import median

import pytest
import torch

# The nodes that each model's graph must hold, counted from its layers: two of q, k, v, o and, in the MLP, gate, up and
# down, where q, k and v are quantised once, and gate and up; or, of a mixture, one of q, k, v, o with two grouped
# products and what stands around them, and a shared MLP.
MIXTURE = {"MoeInitRoutingV3": 1, "GroupedMatmul": 2, "MoeFinalizeRoutingV2": 1}
BY_TOKEN = {**MIXTURE, "DequantSwigluQuant": 1, "DynamicQuant": 2, "QuantBatchMatmulV3": 4}
GLM = "GLM-4, as DeepSeek-V3"
MODELS: dict[tuple[str, ...], tuple[dict[str, int], float]] = {
    ("llama",): ({"DynamicQuant": 8, "QuantBatchMatmulV3": 14}, 30.0),
    ("qwen",): (
        {"DynamicQuant": 2, "AscendQuantV2": 12, "TransQuantParamV2": 12, "QuantBatchMatmulV3": 14},
        15.0,
    ),
    ("moe", "Mixtral", "int4 restored"): ({**MIXTURE, "SwiGlu": 1, "WeightQuantBatchMatmulV2": 4}, 15.0),
    ("moe", GLM, "int8 by token"): ({**BY_TOKEN, "DynamicQuant": 4, "QuantBatchMatmulV3": 7}, 30.0),
}
# The rest of the mixtures, where more examples are asked for than the suite has time for.
if "GRAPH_QUANT_EXAMPLES" in os.environ:
    BY_CALIBRATION = {**MIXTURE, "DequantSwigluQuant": 1, "AscendQuantV2": 5, "QuantBatchMatmulV3": 4}
    SPLIT = {**MIXTURE, "GroupedMatmul": 6, "DynamicQuant": 3, "SwiGlu": 1}
    for name in ("Mixtral", "Qwen3", GLM):
        shared, quantised = (3, 2) if name == GLM else (0, 0)
        MODELS |= {
            ("moe", name, "bfloat16"): ({"Histogram": 1, "GroupedMatmul": 2}, 99.0),
            ("moe", name, "int8 by token"): (
                {**BY_TOKEN, "DynamicQuant": 2 + quantised, "QuantBatchMatmulV3": 4 + shared},
                30.0,
            ),
            ("moe", name, "int8 by calibration"): (
                {**BY_CALIBRATION, "AscendQuantV2": 5 + shared, "QuantBatchMatmulV3": 4 + shared},
                24.0,
            ),
            ("moe", name, "int4 with int8"): (
                {**SPLIT, "GroupedMatmul": 6 + shared, "DynamicQuant": 3 + quantised},
                12.0,
            ),
            ("moe", name, "int4 restored"): ({**MIXTURE, "SwiGlu": 1, "WeightQuantBatchMatmulV2": 4 + shared}, 12.0),
        }


@pytest.mark.parametrize("model", MODELS, ids=lambda model: " ".join(model))
def test_two_graphs_are_bitwise_equal_to_eager_mode(model: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    quantised_nodes, expected_sqnr = MODELS[model]
    example, *arguments = model
    report = importlib.import_module(example).main(*arguments)
    assert (report.graphs, report.recompiles) == (2, 0)
    assert len({run.length for run in report.runs}) == 10
    assert report.findings == []
    assert [run for run in report.runs if not run.is_equal] == []
    assert {kind: report.types[kind] for kind in quantised_nodes} == quantised_nodes
    # The median: where two experts are nearly tied, rounding makes the router take the other one for a token.
    assert median([run.prefill_sqnr for run in report.runs]) > expected_sqnr
    assert median([run.decode_sqnr for run in report.runs]) > expected_sqnr
    printed = capsys.readouterr().out
    assert "0 recompiles over 10 prompt lengths" in " ".join(printed.split())
    assert printed.count("every bit") == 30


def test_an_unquantised_mixture_of_experts_compiles() -> None:
    """Its experts count tokens by histc and multiply by _grouped_mm, which TorchAir cannot lower."""
    decoders, moe = importlib.import_module("decoders"), importlib.import_module("moe")
    model = decoders.make_model(moe.CONFIGS["Mixtral"], torch.bfloat16)
    report = decoders.prove("Mixtral", model, lambda _: [], lengths=(7, 1, 3))
    assert report.graphs == 2
    assert report.bit_equal
    assert (report.types["Histogram"], report.types["GroupedMatmul"]) == (1, 2)
