"""Types that are read without torch are those that kernels infer, and no graph that a kernel refuses is read so."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
import torch_npu
from graph_quant import dumps
from graph_quant.dumps.graph import simple_nodes
from graph_quant.ge import INPUT_TYPES, KERNELS, TO_DESC, list_size_types
from graph_quant.ge.kernels import SHAPE_TYPES, facts

DATA = Path(__file__).parent / "data"
HALF = torch.float16
# Node types with a rule that torch functions do not lower to.
NOT_LOWERED = {"Abs", "BatchMatMulV2", "BatchMatMulV3", "Cos", "Erf", "Gelu", "Identity", "MatMulV2", "MatMulV3",
               "Neg", "Reciprocal", "Relu", "Rsqrt", "Sigmoid", "Sin", "Sqrt", "Square", "Tanh"}  # fmt: skip


def compute(x, weight, scale, bias, gamma, norm_weight, norm_bias, wide):
    rows, tokens = torch_npu.npu_dynamic_quant(x)
    quantised = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=tokens, bias=bias, output_dtype=HALF)
    hidden = torch_npu.npu_rms_norm(torch.nn.functional.silu(quantised), gamma)[0]
    added = torch_npu.npu_add_rms_norm(hidden, quantised, gamma)
    floats = torch.nn.functional.layer_norm(added[2].float(), (16,), norm_weight, norm_bias)
    product = torch.nn.functional.gelu(torch.mm(floats, wide.t()) * floats) - 2 * floats
    heads = product.reshape(-1, 2, 8).permute(1, 0, 2)
    scores = torch.softmax(torch.bmm(heads, heads.transpose(1, 2).contiguous()), -1)
    limited = torch.maximum(torch.minimum(scores, scores * 2), scores / 3) + scores
    return limited, torch.nn.functional.gelu(floats, approximate="tanh"), added[0]


def arguments():
    return (
        torch.randn(4, 16, dtype=HALF),
        torch.randint(-128, 128, (16, 16), dtype=torch.int8),
        torch.rand(16),
        torch.rand(16),
        *(torch.rand(16, dtype=HALF) for _ in range(1)),
        torch.rand(16),
        torch.rand(16),
        torch.rand(16, 16),
    )


@pytest.fixture(scope="module")
def graphs(tmp_path_factory) -> dict[str, Path]:
    """One function, compiled with static and with dynamic sizes."""
    import torchair
    from torchair.configs.compiler_config import CompilerConfig

    paths = {}
    for name in ("static", "dynamic"):
        folder = tmp_path_factory.mktemp(name)
        config = CompilerConfig()
        config.debug.graph_dump.type = "txt"
        config.debug.graph_dump.path = str(folder)
        torch._dynamo.reset()
        backend = torchair.get_npu_backend(compiler_config=config)
        torch.compile(compute, fullgraph=True, dynamic=name == "dynamic", backend=backend)(*arguments())
        (paths[name],) = folder.glob("*optimized*.txt")
    return paths


def check_same(dump: dumps.Dump) -> bool:
    """Compare both ways of inference; return whether the types were read without kernels."""
    stated = dump._read_types()
    if stated is None:
        return False
    inferred = dump._infer_by_kernels()
    for field in dataclasses.fields(inferred):
        assert getattr(stated, field.name) == getattr(inferred, field.name), field.name
    return True


def test_types_of_simple_graphs_are_those_of_kernels(graphs) -> None:
    assert check_same(dumps.load(graphs["static"]))
    check_same(dumps.load(graphs["dynamic"]))


def test_every_rule_is_compared(graphs) -> None:
    kinds = {node.type for node in dumps.load(graphs["static"]).order}
    assert set(simple_nodes._RULES) - kinds <= NOT_LOWERED
    assert set(simple_nodes._RULES) >= NOT_LOWERED


@pytest.mark.parametrize("kind", sorted(NOT_LOWERED))
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_rules_that_no_function_reaches(kind, dtype) -> None:
    binary = "MatMul" in kind
    graph_def = dumps.load(DATA / "upstream_group_quant_default.txt").graph_def
    del graph_def.op[:]
    for index in range(1 + binary):
        op = graph_def.op.add(name=f"arg{index}_1", type="Data")
        op.attr["index"].i = index
        op.output_desc.add(name="y", dtype=TO_DESC[dtype], layout="ND").shape.dim.extend(
            [2, 4, 4][not binary or "Batch" not in kind :]
        )
    op = graph_def.op.add(name="node", type=kind, input=[f"arg{index}_1:0" for index in range(1 + binary)])
    for name in ("x1", "x2") if binary else ("x",):
        op.input_desc.add(name=name)
    op.output_desc.add(name="y")
    graph_def.op.add(name="out", type="NetOutput", input=["node:0"]).input_desc.add(name="input0")
    assert check_same(dumps.Dump(graph_def, kind="txt")) is (dtype != "int32" or kind == "Identity")


def change_inputs(path: Path):
    """Yield the graph with one input of another size, rank or dtype."""
    inputs = [node.name for node in dumps.load(path).order if node.type in INPUT_TYPES]
    for name, change in product(inputs, ("first", "last", "rank", "dtype", "integer")):
        dump = dumps.load(path)
        desc = dump.nodes[name].proto.output_desc[0]
        desc.attr.pop("_meta")
        if change == "rank":
            desc.shape.dim.append(1)
        elif change in ("first", "last"):
            desc.shape.dim[0 if change == "first" else -1] += 1
        else:
            desc.dtype = TO_DESC["int32" if change == "integer" else "bfloat16"]
        yield f"{name} {change}", dump


def test_nothing_that_a_kernel_refuses_is_read(graphs) -> None:
    read = {what: check_same(dump) for what, dump in change_inputs(graphs["static"])}
    assert [what for what, is_read in read.items() if is_read] == ["arg0_1 dtype", "arg3_1 integer"], "these are valid"


@pytest.mark.parametrize("name", ["small_ge_proto.txt", "small_ge_readable.txt", "small_fx.txt"])
def test_descs_of_ge_are_read(name) -> None:
    check_same(dumps.load(DATA / name))


def test_types_of_sizes_and_facts_come_from_the_index() -> None:
    assert {name for name, kernel in KERNELS.items() if kernel.returns_sizes} <= SHAPE_TYPES | list_size_types()
    from graph_quant.ge.kernels import FACTS
    from graph_quant.operator_index import FACTS as INDEXED

    # Kernels of stand-ins for compiled extensions, which other tests load, are not in the index.
    own = {name: declared for name, declared in FACTS.items() if not _is_of_stand_in(name)}
    indexed = {name: dataclasses.replace(facts("NoSuchType"), **INDEXED.get(name, {})) for name in own}
    assert {name: declared for name, declared in own.items() if indexed[name] != declared} == {}


def _is_of_stand_in(name: str) -> bool:
    return name in KERNELS and KERNELS[name].function.__module__.startswith("graph_quant.extensions")


COMMANDS = """
import sys
from graph_quant.cli import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules, "torch was imported"
raise SystemExit(code)
"""


@pytest.mark.parametrize("command", ["inspect", "lint", "diff", "inspect --format json", "inspect --tree --costs",
                                     "lint --format sarif --min-quantised 1%"])  # fmt: skip
@pytest.mark.parametrize("of", ["TorchAir", "GE"])
def test_commands_do_not_import_torch(graphs, command, of) -> None:
    path = graphs["static"] if of == "TorchAir" else DATA / "small_ge_proto.txt"
    arguments = [*command.split(), path, *([path] if command == "diff" else [])]
    done = subprocess.run([sys.executable, "-c", COMMANDS, *map(str, arguments)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
