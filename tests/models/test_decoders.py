"""Quantised decoders from transformers' configs: one GE graph each, for every prompt length and for decode steps."""

import importlib
from statistics import median

import pytest

# The quantised nodes that each model's graph must hold, counted from its layers: two of them, with q, k, v, o and, in
# the MLP, gate, up and down; the mixture has four experts of two grouped linears each.
MODELS = {
    "llama": ({"DynamicQuant": 14, "QuantBatchMatmulV3": 14}, 30.0),
    "qwen": (
        {"DynamicQuant": 2, "AscendQuantV2": 12, "TransQuantParamV2": 12, "QuantBatchMatmulV3": 14},
        15.0,
    ),
    "moe": ({"DynamicQuant": 8, "GroupQuant": 4, "QuantBatchMatmulV3": 8 + 2 * 2 * 4, "Sort": 4}, 30.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_graph_with_the_bits_of_eager_mode(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    quantised_nodes, expected_sqnr = MODELS[name]
    report = importlib.import_module(name).main()
    assert (report.graphs, report.recompiles) == (1, 0)
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
