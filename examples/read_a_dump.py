"""A GE graph dump in four commands: inspect it, lint it, compare it with upstream's, replay it.

The dump is TorchAir's own, written here for a small block with an int4 quantisation; a file from somebody else's
machine is read in the same way.

python examples/read_a_dump.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from graph_quant import dumps
from graph_quant.cli import main as graph_quant_command
from graph_quant.upstream import upstream
from safetensors.torch import load_file
from torchair.configs.compiler_config import CompilerConfig


def block(x: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """A block of a mixture of experts: activation, then quantisation by group."""
    return torch_npu.npu_group_quant(torch.nn.functional.silu(x), scale, rows, dst_dtype=torch.quint4x2)


INPUTS = (torch.randn(6, 32, dtype=torch.float16), torch.rand(2, 32) * 8, torch.tensor([2, 6], dtype=torch.int32))


def dump(folder: Path, name: str) -> tuple[Path, torch.Tensor | None]:
    """Compile the block with TorchAir's dump enabled; return the dump, and the result if it ran."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = str(folder)
    torch._dynamo.reset()
    compiled = torch.compile(
        block, backend=torchair.get_npu_backend(compiler_config=config), dynamic=True, fullgraph=True
    )
    result = compiled(*INPUTS)
    (written,) = folder.glob("dynamo_optimized_graph_*")
    kept = folder / name
    written.rename(kept)
    for other in folder.glob("dynamo_original_graph_*"):
        other.unlink()
    return kept, result


def command(*arguments: str) -> int:
    """Run graph-quant as in a shell."""
    print(f"\n$ graph-quant {' '.join(arguments)}")
    return graph_quant_command(list(arguments))


def main() -> int:
    """Show the four commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/dump"), help="where the files go (default: out/dump)")
    out: Path = parser.parse_args().out
    ours, result = dump(out, "ours.txt")
    with upstream():
        theirs, _ = dump(out, "upstream.txt")

    command("inspect", str(ours))
    command("lint", str(theirs))
    command("diff", str(theirs), str(ours))

    # In Python: the same graph as a torch.fx module that computes it on this machine.
    again = dumps.load(ours).to_fx()(*INPUTS)[0]
    print(f"\nthe dump, run again in Python, gives the bits of the compiled call: {torch.equal(again, result)}")

    # On the command line: inputs that are not given are random, valid, and seeded.
    replayed = out / "results.safetensors"
    command("replay", str(ours), "--seed", "7", "-o", str(replayed))
    print({name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in load_file(replayed).items()})
    return 0 if torch.equal(again, result) else 1


if __name__ == "__main__":
    raise SystemExit(main())
