"""Checks whether this machine can run NPU code, and says what to do if it cannot."""

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .ge import first_line
from .start import preload
from .start.enabling import enabling_file

_TESTED = {"torch": "2.13", "torch_npu": "2.13"}


@dataclass
class Problem:
    """A problem and its fix."""

    what: str
    fix: str


@dataclass
class Diagnosis:
    """The results of all checks."""

    python: str = platform.python_version()
    machine: str = platform.machine()
    versions: dict[str, str | None] = field(default_factory=dict)
    enabled: bool = False
    runtime: str | None = None
    device: dict[str, Any] | None = None
    registered: dict[str, int] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether NPU code runs here."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis for JSON."""
        return {"usable": self.usable, **asdict(self)}


def examine() -> Diagnosis:
    """Run all checks in the order in which a program depends on them; stop at the first problem."""
    diagnosis = Diagnosis()
    for step in (_enabled, _versions, _runtime, _import, _device, _registered, _private_apis, _modes):
        try:
            step(diagnosis)
        except Exception as error:
            diagnosis.problems.append(Problem(first_line(error), _remedy(step)))
        if diagnosis.problems:
            break
    return diagnosis


def _enabled(diagnosis: Diagnosis) -> None:
    diagnosis.enabled = enabling_file().exists()


def _versions(diagnosis: Diagnosis) -> None:
    for package, tested in _TESTED.items():
        try:
            diagnosis.versions[package] = version(package)
        except PackageNotFoundError:
            diagnosis.versions[package] = None
            fix = f"pip install {package}=={tested}.0"
            diagnosis.problems.append(Problem(f"{package} is not installed", fix))
            continue
        if not diagnosis.versions[package].startswith(tested):  # type: ignore[union-attr]
            installed = diagnosis.versions[package]
            diagnosis.warnings.append(f"{package} {installed} is installed; this release is tested with {tested}")


def _runtime(diagnosis: Diagnosis) -> None:
    if preload.switch() != "off" and not preload.is_built():
        fix = "reinstall graph-quant with pip; in a clone, run `make setup`"
        diagnosis.problems.append(Problem("the host NPU's libraries are missing from this installation", fix))
        return
    diagnosis.runtime = preload.choose()
    if diagnosis.runtime == preload.NONE:
        what = f"{preload.SWITCH}=off, and no CANN can be loaded"
        fix = f"unset {preload.SWITCH} to use the host NPU, or source CANN's set_env.sh"
        diagnosis.problems.append(Problem(what, fix))


def _import(_diagnosis: Diagnosis) -> None:
    import torch_npu  # noqa: F401


def _device(diagnosis: Diagnosis) -> None:
    import torch

    device: Any = torch.npu  # type: ignore[attr-defined]
    if not device.is_available():
        diagnosis.problems.append(Problem("torch_npu sees no device", "check the driver with `npu-smi info`"))
        return
    values = torch.arange(4, dtype=torch.float32, device="npu")
    if (values * 2).sum().item() != 12:
        diagnosis.problems.append(Problem("the device computes wrong sums", "report this with the output of --json"))
        return
    free, total = device.mem_get_info()
    diagnosis.device = {
        "name": device.get_device_name(0),
        "count": device.device_count(),
        "free": free,
        "total": total,
    }


def _registered(diagnosis: Diagnosis) -> None:
    import torchair  # noqa: F401  (its import brings the converters in)

    from .converters.lowering import lowered
    from .dispatcher import is_defined, overload
    from .meta import RECORDS
    from .meta.registration import installed_records

    installed = installed_records()
    records = [RECORDS[name] for name in installed]
    ours = [name for name in lowered() if is_defined(name)]
    converters = [name for name in ours if _is_ours(overload(name))]
    if len(converters) < len(ours):
        what = f"TorchAir uses {len(converters)} of {len(ours)} converters of graph_quant"
        diagnosis.problems.append(Problem(what, "import graph_quant before anything registers converters of its own"))
    diagnosis.registered = {
        "meta": sum(record.rules is not None for record in records),
        "converters": len(converters),
        "eager": sum(record.reference is not None for record in records),
    }


def _modes(diagnosis: Diagnosis) -> None:
    from .modes import try_modes

    diagnosis.modes = try_modes()
    for mode, outcome in diagnosis.modes.items():
        if outcome != "works":
            diagnosis.problems.append(Problem(f"graphs by {mode}: {outcome}", "use another mode, and report this one"))


def _is_ours(operator: Any) -> bool:
    return str(operator._ge_converter.__module__).startswith("graph_quant.converters")


def _private_apis(diagnosis: Diagnosis) -> None:
    from .private_apis import missing

    for api in missing():
        what = f"{api.path.replace(' ', ': ')} is not where it was: {api.breaks}"
        if api.used_by:
            what += f" ({', '.join(api.used_by)})"
        diagnosis.problems.append(
            Problem(what, "install the versions that this release is tested with, or a newer release")
        )


def _remedy(step: Callable[[Diagnosis], None]) -> str:
    if step is _import and preload.chosen() == preload.HOST:
        return "run `graph-quant symbols`: a newer torch_npu may need functions that this release does not have"
    if step is _import:
        return f"source CANN's set_env.sh, or set {preload.SWITCH}=on to use the host NPU"
    return "run `graph-quant doctor --json` and report its output"
