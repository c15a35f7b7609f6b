"""Writes the generated pages: those of the environment, the command line and host checks (`make docs-pages`)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from graph_quant import cli
from graph_quant.meta import host_checks
from graph_quant.settings import OTHER_VARIABLES, VARIABLES, Variable

DOCS = Path(__file__).parent

# Variables that only the tests of this repository read.
TEST_VARIABLES = {
    "GRAPH_QUANT_CAPTURED_MODELS": "models of the capture tests: `llama`, `qwen`, `moe`, separated by commas",
    "GRAPH_QUANT_EXAMPLES": "number of generated calls per operator; also runs the long form of sampled tests",
    "GRAPH_QUANT_FUZZ_FILES": "number of damaged dumps that the readers are given",
    "GRAPH_QUANT_KERNEL_CASES": "number of generated cases per family of GE kernels",
    "GRAPH_QUANT_MODELS": "`all` runs every model with every attention and cache",
    "GRAPH_QUANT_PUBLIC_DUMPS": "folders of dumps from other projects, separated by `:`",
    "GRAPH_QUANT_RANDOM_GRAPHS": "number of random graphs that go through the passes",
    "GRAPH_QUANT_REPLAYS": "number of replays per captured model",
    "GRAPH_QUANT_SAMPLE": "a day's number, which chooses what sampled tests run",
    "GRAPH_QUANT_SEED": "seed of the tensors in the tables of calls",
    "GRAPH_QUANT_SGLANG": "a checkout of sglang, for tests of its layers",
    "GRAPH_QUANT_SITE": "the built site, for tests of it; `make docs` sets it",
    "GRAPH_QUANT_STARTS": "number of times that ranks are started and stopped",
    "GRAPH_QUANT_TEST_UPSTREAM": "`1` runs the tests of defects against TorchAir's own converters",
    "GRAPH_QUANT_UPDATE_DOCS": "`1` writes outputs and graphs into the pages instead of comparing them",
    "GRAPH_QUANT_UPDATE_GOLDEN": "`1` writes the golden graphs instead of comparing them",
    "GRAPH_QUANT_VLLM_ASCEND": "a checkout of vllm-ascend, for tests of its layers",
}

_SETTINGS = """## Settings in code

| setting | what it does |
|---|---|
| `graph_quant.host.engine.use("inductor")` | context manager: the engine of graphs first called inside the block |
| `graph_quant.passes.use("off")` | context manager: the passes over graphs that are made inside the block |
| `graph_quant = true` in pytest's ini file | makes torch_npu ready before tests are imported |
| `pytest -p graph_quant.pytest` | the same on the command line |
| `graph-quant enable`, `graph-quant disable` | make every Python of this environment ready, or undo it |
"""


def environment() -> Iterator[str]:
    """The lines of docs/environment.md."""
    yield from ("# Environment variables and settings", "")
    yield from ("Written by `make docs-pages` from `graph_quant/settings.py`.", "")
    yield from ("## Variables of graph_quant", "", *_table(VARIABLES), "")
    yield from _SETTINGS.splitlines()
    yield from ("", "## Variables of other projects", "", *_table(OTHER_VARIABLES), "")
    yield from ("## Variables of the tests", "", "| variable | what it sets |", "|---|---|")
    yield from (f"| `{name}` | {meaning} |" for name, meaning in TEST_VARIABLES.items())


def _table(variables: tuple[Variable, ...]) -> Iterator[str]:
    yield from ("| variable | values | default | what it does |", "|---|---|---|---|")
    for variable in variables:
        names = ", ".join(f"`{name}`" for name in variable.name.split(", "))
        yield f"| {names} | {variable.values} | {variable.default} | {variable.meaning} |"


def command_line() -> Iterator[str]:
    """The lines of docs/command-line.md."""
    top = cli.parser()
    (commands,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help for choice in commands._choices_actions}
    yield from ("# Command line", "")
    yield from ("Written by `make docs-pages` from the parsers. `graph-quant COMMAND --help` prints the same.", "")
    yield from ("| command | what it does |", "|---|---|")
    yield from (f"| [`{name}`](#{name}) | {summaries[name]} |" for name in commands.choices)
    yield from ("", "Environment variables are on [a page of their own](environment.md).")
    for name, parser in commands.choices.items():
        yield from ("", f"## {name}", "", *_command(parser))


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from ("```", _usage(parser), "```", "", *wrap(parser.description or "", 120))
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    shown = [action for action in actions if action.help is not argparse.SUPPRESS]
    if shown:
        yield from ("", "| argument | what it does |", "|---|---|")
        yield from (f"| {_escaped(_spelling(action))} | {_escaped(_help(action, parser))} |" for action in shown)
    if parser.epilog:
        yield from ("", "```", *parser.epilog.strip().splitlines(), "```")


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage on one line of words, in the same form under every version of Python."""
    if parser.usage:
        return str(parser.usage)
    positional = [action for action in parser._actions if not action.option_strings]
    return " ".join(
        [
            parser.prog,
            *(["[option ...]"] if len(parser._actions) > len(positional) + 1 else []),
            *(_repeated(action) for action in positional),
        ]
    )


def _repeated(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs), name)


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = "" if action.nargs == 0 else f" {action.metavar or choices or action.dest.upper()}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def checks() -> Iterator[str]:
    """The lines of docs/host-checks.md."""
    yield from ("# Host checks", "")
    yield "Written by `make docs-pages` from `graph_quant/meta/host_checks.py`."
    yield ""
    text = (
        "Before a kernel starts, its aclnn function and its tiling check a call on the host. Many of these checks are "
        "in no document: storage formats, sizes that a format demands, products of sizes, tensors without elements. "
        "Of the operators below, every condition for A2 and A3 was compared with the rules here, in the source "
        "named; what a rule leaves out is named too. Other operators follow their documents and what is known of their "
        "kernels."
    )
    yield from (*wrap(text, 120), "")
    yield from ("| source | repository | commit |", "|---|---|---|")
    yield from (f"| {name} | {repository} | `{commit}` |" for name, (repository, commit) in host_checks.SOURCES.items())
    yield from ("", "| operator | read in | left out |", "|---|---|---|")
    for operator, read in sorted(host_checks.READ.items()):
        folders = ", ".join(f"`{folder}`" for folder in read.folders)
        yield f"| `{operator}` | {read.source}: {folders} | {read.left} |"


PAGES = {"environment.md": environment, "command-line.md": command_line, "host-checks.md": checks}


def main() -> None:
    """Write the pages."""
    for name, lines in PAGES.items():
        (DOCS / name).write_text("\n".join(lines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
