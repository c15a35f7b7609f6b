"""``graph-quant check``: what operators and engines will refuse of a checkpoint."""

from __future__ import annotations

import argparse

from . import script_options
from .console import spinner
from .errors import UsageError
from .rank_reports import write_file

_EPILOG = """\
Only config.json, the description of the quantisation and the headers of the safetensors files are read. The calls that
vllm-ascend makes with each layer, after it is divided over the cards, are put to the operators' own rules on tensors
without data; these say what they refuse. Also found: files that are truncated, missing or pointers of Git LFS, tensors
that are missing or that the scheme has no use for, parts of a joined linear with different schemes, and sizes that do
not divide. Formats: msModelSlim and compressed-tensors.

examples:
  graph-quant check Qwen3-8B-W8A8
  graph-quant check Qwen3-8B-W4A8 --chip A3 --tp 4
  graph-quant check DeepSeek-V3-W8A8 --tp 16 --tokens 256 --json check.json

exit code: 0, 1 if something is refused, 2 if the checkpoint cannot be read"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "check",
        help="check a quantised checkpoint before an engine loads it",
        description="Say for each layer of a checkpoint what the operators will refuse, and the memory of a card.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", help="a folder with config.json and safetensors files")
    parser.add_argument("--chip", metavar="NAME", help="A2, A3, 950, 310P or a device name; default: the host's")
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="cards that share each layer; default: 1")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), help="default: that of config.json")
    parser.add_argument("--nd", action="store_true", help="weights stay in ND (VLLM_ASCEND_ENABLE_NZ=0)")
    parser.add_argument(
        "--tokens", type=script_options.non_negative_int, default=512, metavar="N",
        help="tokens of a rank in a step, for the buffer of the collectives; default: 512",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    script_options.load_torch_npu()
    from ..checkpoints import check_checkpoint

    try:
        with spinner("reading headers"):
            report = check_checkpoint(
                options.checkpoint,
                chip=options.chip,
                cards=options.tp,
                dtype=options.dtype,
                nz=not options.nd,
                tokens=options.tokens,
            )
    except ValueError as error:
        raise UsageError(str(error)) from error
    print("\n".join(report.lines()))
    if options.json:
        write_file(options.json, report.to_json())
    return 0 if report.ok else 1
