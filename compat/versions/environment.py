"""A Python environment with one release of torch and torch_npu, and the package's wheel in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

# Libraries that torch's CUDA builds bring: several GB, shared by environments of one CUDA version.
_CUDA_PACKAGES = ("cuda-", "nvidia-")
# What the sample of the suite imports.
_TEST_PACKAGES = ("expecttest", "hypothesis", "pytest", "scipy", "setuptools")


class SetupError(Exception):
    """An environment that cannot be created; the message is pip's first error."""


@dataclass(frozen=True)
class Release:
    """A release of torch_npu, and the requirement of torch that goes with it."""

    torch_npu: str
    torch: str

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.torch_npu} with {self.torch}"

    @property
    def folder(self) -> str:
        """The name of its environment's folder."""
        return f"{self.torch_npu}-{self.torch.replace('=', '-')}"


class Environment:
    """An environment in a folder, which ``remove`` deletes.

    Args:
        folder: Where it is; created unless it is complete already.
        interpreter: The Python that it is created with.
    """

    def __init__(self, folder: Path, interpreter: str = sys.executable) -> None:
        self.folder = folder
        self._complete = folder / "complete"
        if not self._complete.exists():
            subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        (self.site,) = (folder / "lib").glob("python*/site-packages")

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def command(self) -> Path:
        """The package's command line."""
        return self.folder / "bin" / "graph-quant"

    def install(self, *requirements: str | Path) -> None:
        """Install with pip.

        Raises:
            SetupError: Pip failed.
        """
        command = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            errors = [line.strip() for line in lines if line.strip().lower().startswith("error: ")]
            raise SetupError((errors or lines)[0])

    def install_release(self, release: Release, shared: Path) -> None:
        """Install torch and torch_npu; CUDA's libraries go into ``shared``, once for each CUDA version."""
        if self._complete.exists():
            return
        self.install("--no-deps", release.torch)
        needed = self._requirements("torch")
        cuda = [line for line in needed if line.startswith(_CUDA_PACKAGES)]
        if cuda:
            self._link_cuda(cuda, shared)
        self.install(*(line for line in needed if line not in cuda), "numpy", "pyyaml")
        # Some releases of torch_npu require a torch build that PyPI does not have.
        self.install("--no-deps", f"torch_npu=={release.torch_npu}")
        self._complete.touch()

    def install_package(self, wheel: Path, *plugins: Path) -> dict[str, tuple[str, str]]:
        """Install the package as a user does, with pip; return the versions that it changed: before and after."""
        self._uninstall("graph-quant")
        before = self.versions()
        self.install(wheel)
        after = self.versions()
        self.install(*_TEST_PACKAGES)
        self.install("--no-deps", *plugins)
        return {name: (before[name], after.get(name, "")) for name in before if after.get(name) != before[name]}

    def _uninstall(self, name: str) -> None:
        command = [self.python, "-m", "pip", "uninstall", "--quiet", "--yes", name]
        subprocess.run(command, check=True, capture_output=True)

    def versions(self) -> dict[str, str]:
        """The versions of the installed packages."""
        return {found.metadata["Name"]: found.version for found in distributions(path=[str(self.site)])}

    def remove(self) -> None:
        """Delete the environment."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _requirements(self, name: str) -> list[str]:
        from packaging.requirements import Requirement

        (package,) = Distribution.discover(name=name, path=[str(self.site)])
        requirements = [Requirement(line) for line in package.requires or ()]
        needed = [one for one in requirements if one.marker is None or one.marker.evaluate()]
        return [f"{one.name}[{','.join(sorted(one.extras))}]{one.specifier}" for one in needed]

    def _link_cuda(self, packages: list[str], shared: Path) -> None:
        """Link the shared folder's packages into the environment, where torch's libraries look for them."""
        runtime = next((line for line in packages if "cuda-runtime" in line or "cudnn" in line), packages[0])
        folder = shared / re.sub(r"[^\w.]+", "-", runtime)
        if not folder.exists():
            self.install("--target", folder, *packages)
        for path in folder.iterdir():
            target = self.site / path.name
            if path.name != "__pycache__" and not target.exists():
                target.symlink_to(path)


def build_wheels(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheels of the package and of the example of a plug-in from the files of a clone."""
    copy = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in files:
        if (source / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*build, "--wheel-dir", folder, copy, copy / "examples" / "custom_operator"]
    subprocess.run(command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return next(folder.glob("graph_quant-*.whl")), next(folder.glob("custom_operator-*.whl"))
