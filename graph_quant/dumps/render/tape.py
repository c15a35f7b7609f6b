"""Formats the tape of a captured graph: text, Graphviz and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ..read.tape import Memory, Task


def tape_to_lines(tasks: Sequence[Task]) -> Iterator[str]:
    r"""Format the tape of a captured graph as text.

    Args:
        tasks: The tasks that `read_tape` returned.

    Returns:
        One line per task: number, stream, inputs, outputs, and the tasks whose memory it reuses. Tasks of a branch are
        indented.

    Examples:
        >>> print("\n".join(tape_to_lines(tasks)))
    """
    names = _name_inputs(tasks)
    streams = {task.stream for task in tasks}
    reused = sum(len(task.reuses) for task in tasks)
    counts = f"{len(tasks)} tasks on {len(streams)} streams, {len(names)} inputs, {reused} reused addresses"
    yield f"# captured graph: {counts}"
    width = len(str(len(tasks)))
    depths: dict[int | None, int] = {None: 0}  # of what depends on a condition
    for task in tasks:
        indent = "  " * depths[task.condition]
        call = f"{_format_call(task, names)}{_format_results(task)}"
        yield f"%{task.number:<{width}}  stream {task.stream}  {indent}{call}"
        depths[task.number] = depths[task.condition] + 1


def _format_call(task: Task, names: dict[int, str]) -> str:
    if task.kind == "EVENT_WAIT":
        return "wait" if task.after is None else f"wait for %{task.after}"
    if task.kind == "EVENT_RECORD":
        return "record"
    name = "if" if task.kind == "COND" else task.name
    return f"{name}({', '.join(_format_source(task, index, names) for index in range(len(task.inputs)))})"


def _format_source(task: Task, index: int, names: dict[int, str]) -> str:
    source = task.sources[index]
    return names[task.inputs[index].address] if source is None else f"%{source}"


def _format_results(task: Task) -> str:
    text = f" -> {', '.join(map(str, task.outputs))}" if task.outputs else ""
    return text + (f"  # in the memory of {', '.join(f'%{number}' for number in task.reuses)}" if task.reuses else "")


def _name_inputs(tasks: Sequence[Task]) -> dict[int, str]:
    """Name each address that is read before it is written."""
    read: list[Memory] = [
        memory for task in tasks for memory, source in zip(task.inputs, task.sources, strict=True) if source is None
    ]
    return {address: f"input{index}" for index, address in enumerate(dict.fromkeys(m.address for m in read))}


def tape_to_dot(tasks: Sequence[Task]) -> str:
    """Format the tape of a captured graph for Graphviz.

    Args:
        tasks: The tasks that `read_tape` returned.

    Returns:
        The text of a ``.dot`` file, with a cluster per stream, dashed edges for events and dotted ones for reused
        memory.

    Examples:
        >>> Path("graph.dot").write_text(tape_to_dot(tasks))
    """
    lines = ["digraph tape {", '  node [shape=box, style="rounded", fontname="sans-serif"];']
    for stream in sorted({task.stream for task in tasks}):
        members = " ".join(
            f"t{task.number} [label={json.dumps(task.name)}];" for task in tasks if task.stream == stream
        )
        lines.append(f"  subgraph cluster_{stream} {{ label={json.dumps(f'stream {stream}')}; {members} }}")
    for task in tasks:
        for memory, source in zip(task.inputs, task.sources, strict=True):
            if source is not None:
                lines.append(f"  t{source} -> t{task.number} [label={json.dumps(str(memory))}];")
        if task.after is not None:
            lines.append(f"  t{task.after} -> t{task.number} [style=dashed];")
        lines += [f"  t{number} -> t{task.number} [style=dotted, label=memory];" for number in task.reuses]
    return "\n".join([*lines, "}", ""])


def tape_to_json(tasks: Sequence[Task]) -> str:
    """Format the tape of a captured graph as JSON.

    Args:
        tasks: The tasks that `read_tape` returned.

    Returns:
        A list of tasks with their dependencies.

    Examples:
        >>> json.loads(tape_to_json(tasks))[0]["name"]
    """
    return json.dumps([asdict(task) for task in tasks], indent=2) + "\n"
