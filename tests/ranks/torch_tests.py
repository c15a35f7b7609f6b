"""Runs PyTorch's own tests of distributed backends on the backend hccl: `python tests/ranks/torch_tests.py --ranks 4`.

Each test has processes of its own, one for each rank, and a time limit; it has passed where it has on every rank. The
outcome of each test is printed as it ends, the count at last. `make coverage` runs them.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import unittest
import warnings
from collections import Counter
from pathlib import Path

# A rank that has failed leaves the others waiting: what they would say after this is that it is not there.
GRACE = 3.0


def ended(processes: list[multiprocessing.Process], folder: Path, seconds: float) -> str:
    """Return how a test ended, by its worst rank; all its processes are killed."""
    deadline = time.monotonic() + seconds
    outcomes: dict[int, str] = {}
    while time.monotonic() < deadline and any(process.is_alive() for process in processes):
        time.sleep(0.02)
        outcomes = read_outcomes(len(processes), folder)
        if any(outcome.startswith("failed") for outcome in outcomes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
    for process in processes:
        process.kill()
        process.join()
    outcomes = read_outcomes(len(processes), folder)
    failed = [
        f"failed: rank {rank}: {outcome[8:]}" for rank, outcome in outcomes.items() if outcome.startswith("failed")
    ]
    missing = [rank for rank in range(len(processes)) if rank not in outcomes]
    if failed or not missing:
        return failed[0] if failed else outcomes[0]
    how = "timed out" if any(processes[rank].exitcode == -9 for rank in missing) else "crashed"
    codes = ", ".join(f"rank {rank}: exit code {processes[rank].exitcode}" for rank in missing)
    return f"{how}: {codes}" if how == "crashed" else f"timed out: after {seconds:g} s, ranks {missing} had not ended"


def read_outcomes(ranks: int, folder: Path) -> dict[int, str]:
    """Return the outcomes that ranks have written so far."""
    return {rank: (folder / str(rank)).read_text() for rank in range(ranks) if (folder / str(rank)).exists()}


def main() -> int:
    """Run all tests whose names contain one of the words; print how many passed, and the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only tests whose names contain one of them")
    parser.add_argument("--ranks", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=90, help="time limit of a test; default: %(default)s")
    parser.add_argument("--show", action="store_true", help="show what the ranks of a failed test printed")
    options = parser.parse_args()
    os.environ.update(LOCAL_WORLD_SIZE=str(options.ranks), WORLD_SIZE=str(options.ranks), OMP_NUM_THREADS="1")
    # The process that others are forked from has to find what it is to load.
    os.environ.update(PYTHONWARNINGS="ignore", PYTHONPATH=str(Path(__file__).parent))
    warnings.simplefilter("ignore")
    import torch_case

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch_case"])
    names = unittest.TestLoader().getTestCaseNames(torch_case.Tests)
    wanted = [name for name in names if not options.words or any(word in name for word in options.words)]
    counts = Counter[str]()
    for index, name in enumerate(wanted, 1):
        with tempfile.TemporaryDirectory() as folder:
            for part in ("barrier", "test_dir", "init_dir"):
                Path(folder, part).mkdir()
            ranks = range(options.ranks)
            arguments = [(name, rank, options.ranks, folder) for rank in ranks]
            processes = [
                context.Process(target=torch_case.run_rank, args=rank_arguments) for rank_arguments in arguments
            ]
            for process in processes:
                process.start()
            how = ended(processes, Path(folder), options.seconds)
            if options.show and not how.startswith(("passed", "skipped", "left out")):
                for rank in ranks:
                    print(f"--- rank {rank}\n{Path(folder, f'printed{rank}').read_text(errors='replace')}")
        counts[how.partition(":")[0]] += 1
        print(f"[{index} of {len(wanted)}] {name} {how}", flush=True)
    summary = [f"{number} {how}" for how, number in counts.most_common()]
    print(f"PyTorch's tests of a backend, {len(wanted)} on {options.ranks} ranks: {', '.join(summary)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
