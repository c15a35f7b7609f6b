"""Serves prompts by ``vllm serve`` and the OpenAI API: ``server.py FOLDER`` with its settings in the folder.

All prompts are requested at once. For the memory of long runs, 1,000 short requests follow. Then Ctrl-C must end
every process, and leave nothing in shared memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, OpenAIError

_SHARED = Path("/dev/shm")
_ENDING = 60.0
# Requests after which memory is measured: the first fill caches of the allocator and of Python.
_WARM, _ALL, _AT_ONCE = 200, 1000, 4
# In MB. Python's own allocator moves by some; a leaked step, block or request of this model would take more.
_GROWTH = 16


def main() -> None:
    """Serve, ask, stop."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and their children
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before = set(_SHARED.iterdir())
    options = [part for name, value in settings["options"].items() for part in _option(name, value)]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "model"]
    command = ["-m", "graph_quant", "run", "-m", "vllm.entrypoints.cli.main", "serve", str(folder), *listen, *options]
    server = subprocess.Popen([sys.executable, *command], start_new_session=True)
    try:
        answers = asyncio.run(_ask(server, f"http://127.0.0.1:{port}/v1", settings))
    finally:
        os.killpg(server.pid, signal.SIGINT)
        left = _wait(server)
    assert not left, f"{left} processes are left after Ctrl-C"
    assert not (files := set(_SHARED.iterdir()) - before - _in_use()), f"/dev/shm holds {files}"
    (folder / "requests.json").write_text(json.dumps(answers))


def _option(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [flag] if value else []
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


async def _ask(server: subprocess.Popen[bytes], url: str, settings: dict[str, Any]) -> dict[str, Any]:
    tokens = settings["tokens"]
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        while True:
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with {server.returncode}")
            with contextlib.suppress(OpenAIError):
                await client.models.list()
                break
            await asyncio.sleep(1)
        requests = await asyncio.gather(*(_complete(client, prompt, tokens) for prompt in settings["prompts"]))
        note = await _measure_memory(client, server.pid) if settings["is_long"] else ""
        return {"requests": list(requests), "counters": {}, "note": note}


async def _measure_memory(client: AsyncOpenAI, session: int) -> str:
    """Ask many short prompts; return by how much the memory of the server's processes grew."""
    measured = {}
    for first in range(0, _ALL, _AT_ONCE):
        batch = range(first, first + _AT_ONCE)
        await asyncio.gather(*(_complete(client, f"{number} is a number", 2) for number in batch))
        if batch.stop in (_WARM, _ALL):
            measured[batch.stop] = _memory(session)
    growth = measured[_ALL] - measured[_WARM]
    assert growth < _GROWTH, f"memory grew by {growth:.0f} MB from request {_WARM} to {_ALL}"
    return f"memory grew by {growth:.0f} MB from request {_WARM} to {_ALL}"


async def _complete(client: AsyncOpenAI, prompt: str, tokens: int) -> dict[str, Any]:
    extensions = {"ignore_eos": True, "return_token_ids": True, "return_tokens_as_token_ids": True}
    answer = await client.completions.create(
        model="model", prompt=prompt, max_tokens=tokens, temperature=0, logprobs=5, extra_body=extensions
    )
    (choice,) = answer.choices
    extra = choice.model_extra or {}
    steps = (choice.logprobs and choice.logprobs.top_logprobs) or []
    return {
        "prompt": extra["prompt_token_ids"],
        "tokens": extra["token_ids"],
        "logprobs": [{name.removeprefix("token_id:"): value for name, value in step.items()} for step in steps],
    }


def _wait(server: subprocess.Popen[bytes]) -> int:
    """Return the number of processes of the server that are left some time after it was interrupted."""
    end = time.monotonic() + _ENDING
    while left := len(_processes(server.pid)):
        server.poll()
        if time.monotonic() > end:
            os.killpg(server.pid, signal.SIGKILL)
            break
        time.sleep(0.5)
    return left


def _processes(session: int) -> list[Path]:
    """Return the folders in /proc of a session's processes."""
    running = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name in brackets: the state, the parent, the group, the session.
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                running.append(path.parent)
    return running


def _memory(session: int) -> float:
    """Return the MB of a session's processes, shared ones counted once, without files that other programs map too."""
    rows = [
        line.split() for folder in _processes(session) for line in (folder / "smaps_rollup").read_text().splitlines()
    ]
    return sum(int(row[1]) for row in rows if row[0] in ("Pss_Anon:", "Pss_Shmem:")) / 1024


def _in_use() -> set[Path]:
    """Return the files that a process maps: other programs of the machine use shared memory too."""
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped |= {Path(line.split()[-1]) for line in maps.read_text().splitlines() if str(_SHARED) in line}
    return mapped


if __name__ == "__main__":
    main()
