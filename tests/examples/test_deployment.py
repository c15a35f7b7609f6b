"""The decoder of examples/deployment.py: three of its lengths, all of them where the long version is asked for."""

import os
import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "deployment.py"


def test_prefill_and_decode_are_one_graph_each_and_as_plain_torch() -> None:
    example = runpy.run_path(str(EXAMPLE))
    deployment = example["Deployment"](example["make_weights"]())
    lengths = example["LENGTHS"] if "GRAPH_QUANT_EXAMPLES" in os.environ else example["LENGTHS"][:3]
    for length in lengths:
        run = deployment.compare(length)
        assert run.graph_is_eager, length
        assert run.cache_is_plain, length
        assert max(run.prefill_error, run.decode_error) <= example["BOUND"], run
    assert deployment.graphs == 2
