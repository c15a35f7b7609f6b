"""Runs the package with each supported release of torch_npu: `make versions`, or `python -m compat.versions`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from .checks import FEATURES, run_checks
from .environment import Environment, Release, SetupError, build_wheels
from .table import page, read, write

ROOT = Path(__file__).parents[2]
RELEASES = (
    Release("2.10.0.post4", "torch==2.10.0"),
    Release("2.13.0", "torch==2.13.0"),
    Release("2.13.0", "torch===2.13.0"),
    Release("2.14.0", "torch==2.14.0"),
    Release("2.12.0.post3", "torch==2.12.0"),
    Release("2.11.0.post3", "torch==2.11.0"),
    Release("2.9.0.post9", "torch==2.9.0"),
    Release("2.9.0", "torch==2.9.0"),
    Release("2.8.0.post5", "torch==2.8.0"),
    Release("2.7.1.post11", "torch==2.7.1"),
)
_EPILOG = """\
`torch==2.13.0` takes a CPU build where an index has one, `torch===2.13.0` only PyPI's CUDA build.
An environment takes about 2 GB, and CUDA's libraries 4.5 GB for each CUDA version. Environments are deleted at once,
except with --keep.

exit code: 0; 1 if a release fails; 2 for a usage error"""


def main() -> int:
    """Create an environment for each selected release, run everything in it, and write docs/versions.md."""
    options = _options()
    chosen = [one for one in RELEASES if not options.release or {one.torch_npu, one.name} & set(options.release)]
    if not chosen:
        print(
            f"versions: no release of {', '.join(options.release)}; known: {', '.join(one.name for one in RELEASES)}",
            file=sys.stderr,
        )
        return 2
    folder = Path(options.folder or tempfile.mkdtemp(prefix="versions-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "build", ignore_errors=True)
    wheels = build_wheels(ROOT, folder / "build")
    outcomes = read()
    failed = False
    for release in chosen:
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        environment = Environment(_kept(folder, release, options.python), options.python)
        try:
            environment.install_release(release, folder / "shared")
            changed = environment.install_package(*wheels)
            outcome = run_checks(environment, release, folder / "build" / "source", work, suite=not options.no_suite)
            outcome.changed = changed
        except SetupError as error:
            print(f"{release.name}: not run: {error}", file=sys.stderr)
            failed = True
            continue
        finally:
            if not options.keep:
                environment.remove()
        failed = failed or not outcome.is_supported
        outcomes = {**read(), f"{release.name}, Python {outcome.python}": outcome.as_dict()}
        write(outcomes)
        print(json.dumps(outcome.as_dict(), indent=2) if not outcome.is_supported else f"{release.name}: supported")
    print(page(outcomes))
    return int(failed)


def _kept(folder: Path, release: Release, interpreter: str) -> Path:
    """The folder of an environment, which --keep keeps."""
    return folder / "environments" / f"{release.folder}-{Path(interpreter).resolve().name}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "compat.versions", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", nargs="*", help="only these releases of torch_npu; default: all")
    parser.add_argument("--folder", help="keep the wheel and CUDA's libraries here; default: a temporary folder")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environments")
    parser.add_argument(
        "--keep", action="store_true", help="keep the environments, and take those that earlier runs kept"
    )
    parser.add_argument(
        "--no-suite", action="store_true", help=f"only the {sum(map(len, FEATURES.values()))} scripts and the demo"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
