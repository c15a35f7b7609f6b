"""Tiny dumps that ask for a great deal: every expansion ends, in an exit code and one line.

Without its bound each of these ran for minutes, took gigabytes, or ended the process.
"""

from __future__ import annotations

import struct

import pytest

SYMBOLIC = "Tensor(dtype=torch.float32, shape=torch.Size([{}])"


def data(name: str, *dims: int, index: int = 0, meta: str = "") -> str:
    stated = f'attr {{ key: "_meta" value {{ s: "{SYMBOLIC.format(meta)}" }} }}' if meta else ""
    sizes = " ".join(f"dim: {size}" for size in dims)
    return (
        f'op {{ name: "{name}" type: "Data" attr {{ key: "index" value {{ i: {index} }} }} output_desc {{ name: "y" '
        f'dtype: DT_FLOAT shape {{ {sizes} }} {stated} device_type: "NPU" }} }}\n'
    )


def const(name: str, *numbers: int) -> str:
    raw = "".join(f"\\{byte:03o}" for byte in struct.pack(f"<{len(numbers)}q", *numbers))
    desc = f"dtype: DT_INT64 shape {{ dim: {len(numbers)} }}"
    value = f't {{ desc {{ {desc} }} data: "{raw}" }}'
    return (
        f'op {{ name: "{name}" type: "Const" attr {{ key: "value" value {{ {value} }} }} '
        f'output_desc {{ name: "y" {desc} }} }}\n'
    )


def node(name: str, kind: str, inputs: dict[str, str], **attributes: str) -> str:
    fed = "".join(f'input: "{source}:0" ' for source in inputs.values())
    descs = "".join(f'input_desc {{ name: "{key}" }} ' for key in inputs)
    values = "".join(f'attr {{ key: "{key}" value {{ {value} }} }} ' for key, value in attributes.items())
    return f'op {{ name: "{name}" type: "{kind}" {fed}{descs}{values}output_desc {{ name: "y" }} }}\n'


def out(source: str) -> str:
    return node("out", "NetOutput", {"input0": source})


def chain(kind: str, count: int, *names: str) -> str:
    """Each node takes the one before it as often as it has inputs."""
    return "".join(node(f"c{at + 1}", kind, dict.fromkeys(names, f"c{at}")) for at in range(count)) + out(f"c{count}")


def doubled(count: int) -> str:
    links = (
        node(f"c{at + 1}", "ConcatV2", {"x0": f"c{at}", "x1": f"c{at}", "concat_dim": "axis"}) for at in range(count)
    )
    return const("axis", 0) + "".join(links) + out(f"c{count}")


SYMBOLS = "".join(data(f"x{at}", -1, index=at, meta=f"s{at}") for at in range(3000))
SHAPE = node("c0", "Shape", {"x": "x"})
DUMPS = {
    "powers of a constant": const("c0", 9) + chain("Pow", 30, "x1", "x2"),
    "powers of a size": data("x", -1, meta="s0") + SHAPE + chain("Pow", 30, "x1", "x2"),
    "products of a size": data("x", -1, meta="s0") + SHAPE + chain("Mul", 60, "x1", "x2"),
    "sizes joined": data("x", 4) + SHAPE + doubled(40),
    "constants joined": const("c0", 1, 2) + doubled(40),
    "tensors joined": data("c0", 4) + doubled(70),
    "a tower of exponents": data("c0", -1, meta="9**9**9**9") + chain("Relu", 1, "x"),
    "powers in a size": data("c0", -1, meta="(" * 9 + "s0" + "**8)" * 9) + chain("Relu", 1, "x"),
    "parts": data("x", 2_000_000_000)
    + node("s", "SplitD", {"x": "x"}, split_dim="i: 0", num_split="i: 1000000000")
    + out("s"),
    "pieces": data("x", 2_000_000_000) + node("s", "Unpack", {"x": "x"}, num="i: 2000000000") + out("s"),
    "symbols": SYMBOLS + node("out", "NetOutput", {f"input{at}": f"x{at}" for at in range(3000)}),
    "a long word": "# x\nfrom torchair import ge\n# " + "a" * 300_000 + "\na_0 = ge.Relu(1)\n",
    "open brackets": "# x\nfrom torchair import ge\n# " + "a: torch.f[" * 20_000 + "\na_0 = ge.Relu(1)\n",
}

# The others are answered in full.
CUT = {
    "powers of a size",
    "products of a size",
    "sizes joined",
    "tensors joined",
    "a tower of exponents",
    "powers in a size",
    "parts",
    "pieces",
    "symbols",
}
# Where what the dump states is enough to see it.
AT_ONCE = ("a tower of exponents", "powers in a size", "symbols")


@pytest.mark.parametrize("name", DUMPS)
def test_inspect_ends(command, tmp_path, name):
    path = tmp_path / "dump"
    path.write_text(DUMPS[name])
    code, _, error = command("inspect", path)
    assert code == (2 if name in CUT else 0), error
    assert error.count("\n") == (1 if name in CUT else 0)


@pytest.mark.parametrize("name", AT_ONCE)
def test_excessive_sizes_are_refused_before_torch_is_loaded(run_python, tmp_path, name):
    path = tmp_path / "dump"
    path.write_text(DUMPS[name])
    code = (
        f"import sys; from graph_quant.cli import main; print(main(['inspect', {str(path)!r}]), 'torch' in sys.modules)"
    )
    assert run_python(code).stdout == "2 False\n"


LARGE = {
    "an input": (data("c0", 2_400_000_000) + chain("Relu", 1, "x"), "more than 2 GiB"),
    "inputs": (
        "".join(data(f"x{at}", 1 << 28, index=at) for at in range(4))
        + node("out", "NetOutput", {f"input{at}": f"x{at}" for at in range(4)}),
        "inputs would take 3221225472 bytes",
    ),
    "joined": (data("c0", 4) + doubled(29), "more than 2 GiB"),
    "a square": (node("e", "Eye", {}, num_rows="i: 60000") + out("e"), "more than 2 GiB"),
    "beyond 64 bits": (data("c0", 1 << 62, 8) + chain("Relu", 1, "x"), "c0"),
    "a size that data tell": (
        data("x", 4)
        + node("whole", "Cast", {"x": "x"}, dst_type="i: 9")
        + const("much", 9, 1, 1 << 20, 1 << 20)
        + node("sizes", "Maximum", {"x1": "whole", "x2": "much"})
        + node("f", "Empty", {"shape": "sizes"}, dtype="i: 0")
        + out("f"),
        "the graph stops",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_replay_takes_no_more_memory_than_allowed(command, tmp_path, name):
    text, message = LARGE[name]
    path = tmp_path / "dump.txt"
    path.write_text(text)
    code, shown, error = command("replay", path, "-o", tmp_path / "out")
    assert (code, shown) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_an_index_out_of_range_does_not_end_the_process(command, tmp_path):
    path = tmp_path / "dump.txt"
    attributes = {"num_weights": "i: 10", "scale_grad_by_freq": "b: true"}
    embedding = node("e", "EmbeddingDenseGrad", {"grad": "g", "indices": "i"}, **attributes)
    path.write_text(data("g", 2, 8) + const("i", 1 << 40, -5) + embedding + out("e"))
    code, _, error = command("replay", path, "-o", tmp_path / "out")
    assert code == 2
    assert "indices must lie in [0, 10), got 1099511627776" in error


def test_reading_a_dump_does_not_load_the_compiler(run_python, tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text(data("x", -1, 8, meta="s0, 8") + SHAPE + doubled(3))
    code = f"""
import sys
from graph_quant.cli import main
assert main(["inspect", {str(path)!r}, "-o", "shown"]) == 0
assert "torch._dynamo.convert_frame" not in sys.modules
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
import torch
from torch._dynamo import variables
from torch._subclasses.fake_tensor import FakeTensorMode
assert variables is sys.modules["torch._dynamo.variables"] and variables.__spec__.name == variables.__name__
assert torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1)).item() == 2
assert FakeTensorMode.__torch_dispatch__.__wrapped__.__dynamo_disable._torchdynamo_disable
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 300_000_000
