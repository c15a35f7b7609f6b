"""Reads the tape of a captured graph, as ``NPUGraph.debug_dump`` writes it: a Chrome trace with one event per task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DumpError


@dataclass(frozen=True)
class Memory:
    """A tensor of a task: its address and type."""

    address: int
    type: str

    def __str__(self) -> str:
        return self.type


@dataclass
class Task:
    """One task of the tape and the earlier tasks that it depends on."""

    number: int
    name: str
    kind: str
    stream: int
    inputs: list[Memory] = field(default_factory=list)
    outputs: list[Memory] = field(default_factory=list)
    sources: list[int | None] = field(
        default_factory=list
    )  # for each input the task that wrote it, None if from outside
    reuses: list[int] = field(default_factory=list)  # tasks whose results this one overwrites
    after: int | None = None  # for a wait, the record that it waits for
    condition: int | None = None  # the task that decides whether this one runs, None if it always does


def read_tape(path: Path) -> list[Task]:
    r"""Read the tape of a captured graph.

    Args:
        path: The JSON file.

    Returns:
        The tasks in execution order.

    Raises:
        DumpError: If the file is not a tape.

    Examples:
        >>> print("\n".join(tape_to_lines(read_tape(Path("graph.json")))))
    """
    try:
        events = json.loads(path.read_text(encoding="utf-8"))
        tasks = [_read_task(number, event) for number, event in enumerate(events)]
        _assign_branches(tasks, events)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DumpError(f"{path}: not the trace of a captured graph: {error}") from error
    _connect(tasks)
    return tasks


def _read_task(number: int, event: dict[str, Any]) -> Task:
    args = event["args"]
    task = Task(number, event["name"], args["Task Type"], args["Stream Id"])
    task.inputs = list(_read_memories(args.get("Inputs", ())))
    task.outputs = list(_read_memories(args.get("Outputs", ())))
    if "Source" in args:
        task.inputs = [Memory(args["Source"], f"bytes[{args['Bytes']}]")]
    if "Target" in args:
        task.outputs = [Memory(args["Target"], f"bytes[{args['Bytes']}]")]
    return task


def _assign_branches(tasks: list[Task], events: list[dict[str, Any]]) -> None:
    conditions = {event["args"]["Branch"]: number for number, event in enumerate(events) if "Branch" in event["args"]}
    for task, event in zip(tasks, events, strict=True):
        task.condition = conditions.get(event["args"].get("Model Id"))


def _read_memories(listed: Any) -> Iterator[Memory]:
    for entry in listed:
        yield Memory(entry["Address"], f"{entry['Type']}{entry['Shape']}")


def _connect(tasks: list[Task]) -> None:
    writer: dict[int, int] = {}
    recorded: dict[str, int] = {}
    for task in tasks:
        task.sources = [writer.get(memory.address) for memory in task.inputs]
        read = {memory.address for memory in task.inputs}
        task.reuses = [writer[m.address] for m in task.outputs if m.address in writer and m.address not in read]
        writer.update((memory.address, task.number) for memory in task.outputs)
        event = task.name.rpartition("_")[2]
        if task.kind == "EVENT_RECORD":
            recorded[event] = task.number
        elif task.kind == "EVENT_WAIT":
            task.after = recorded.get(event)
