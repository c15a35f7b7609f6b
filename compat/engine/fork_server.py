"""Loads vLLM, then forks a process for each request on its standard input, and answers with the exit code.

A request is a line of JSON; its answer too, null after the time limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

_ENDING = 20  # seconds


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    _load()
    for line in sys.stdin:
        answers.write(json.dumps(_run(**json.loads(line))) + "\n")
        answers.flush()


def _load() -> None:
    import torch
    import vllm_ascend.platform
    import vllm_ascend.worker.worker  # noqa: F401
    import xgrammar  # noqa: F401
    from vllm import LLM  # noqa: F401

    assert not torch.npu.is_initialized(), "a forked process could not use the device"


def _run(arguments: list[str], folder: str, seconds: float, environment: dict[str, str], printed: str) -> int | None:
    child = os.fork()
    if not child:
        _become(arguments, folder, environment, printed)
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):  # when no process of the script is left
        for _ in range(_ENDING * 10):  # engines remove their shared memory
            os.killpg(child, 0)
            time.sleep(0.1)
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(ended[1])


def _become(arguments: list[str], folder: str, environment: dict[str, str], printed: str) -> None:
    """Run the script as ``__main__`` and exit."""
    os.setsid()
    output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).parent))
    code: Any = 0
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as exit_:
        code = exit_.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
