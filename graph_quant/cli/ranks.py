"""Runs several ranks of a script on this machine."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from threading import Thread
from typing import IO

_GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL
# A watcher process: waits until its parent has ended, then kills the given process groups.
_WATCHER = """\
import os, signal, sys
sys.stdin.read()
for process in map(int, sys.argv[1:]):
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def run_ranks(command: list[str], environment: dict[str, str], ranks: int, good: Sequence[int] = (0,)) -> int:
    """Run `command` once per rank; return the largest of the `good` exit codes, or that of the first failure."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    environment = _shared_environment(environment, ranks)
    started: list[subprocess.Popen[str]] = []
    watch = None
    try:
        for rank in range(ranks):
            started.append(_start(command, {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        watch = _start_watcher(started)
        readers = [reader for rank, process in enumerate(started) for reader in _readers(rank, process)]
        code = _wait_for_all(started, good)
    finally:
        _stop(started)
        if watch is not None:
            watch.kill()
            watch.communicate()
    for reader in readers:
        reader.join(_GRACE_SECONDS)
    return code


def _shared_environment(environment: dict[str, str], ranks: int) -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    threads = max(1, (os.cpu_count() or 1) // ranks)
    # Gloo connects the ranks: it listens on the address of the host's name unless an interface is named.
    defaults = {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
    return {**defaults, **environment, **{name: str(value) for name, value in shared.items()}}


def _start(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )


def _end_with_parent() -> None:
    """Have Linux kill a rank when its parent ends, for whatever reason."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _start_watcher(started: list["subprocess.Popen[str]"]) -> "subprocess.Popen[bytes]":
    """Have the children of the ranks killed too when this process ends."""
    command = [sys.executable, "-I", "-S", "-c", _WATCHER, *(str(process.pid) for process in started)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _readers(rank: int, process: "subprocess.Popen[str]") -> list[Thread]:
    streams = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    readers = [Thread(target=_forward, args=(rank, source, target), daemon=True) for source, target in streams]
    for reader in readers:
        reader.start()
    return readers


def _forward(rank: int, source: IO[str], target: IO[str]) -> None:
    for line in source:
        target.write(f"[rank {rank}] {line.rstrip()}\n")
        target.flush()


def _wait_for_all(started: list["subprocess.Popen[str]"], good: Sequence[int]) -> int:
    while True:
        codes = [process.poll() for process in started]
        failed = [(rank, code) for rank, code in enumerate(codes) if code is not None and code not in good]
        if failed:
            # A killed rank makes others fail: of failures seen at once, report the signal.
            rank, code = min(failed, key=lambda failure: failure[1] > 0)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            print(f"graph-quant run: rank {rank} ended with {how}; the others are stopped", file=sys.stderr)
            return 128 - code if code < 0 else code
        ended = [code for code in codes if code is not None]
        if len(ended) == len(started):
            return max(ended)
        time.sleep(0.05)


def _stop(started: list["subprocess.Popen[str]"]) -> None:
    """End the remaining ranks with their children."""
    _signal(started, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(process.poll() is None for process in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal(started, signal.SIGKILL)
    for process in started:
        process.wait()


def _signal(started: list["subprocess.Popen[str]"], number: signal.Signals) -> None:
    for process in started:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            continue


def _exit_on_signal(number: int, _: object) -> None:
    raise SystemExit(128 + number)
