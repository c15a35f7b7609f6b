"""Checks whether this machine can run NPU code, and says what to do if it cannot."""

import platform
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from . import chip
from .discovery import plugin_problems
from .ge import first_line
from .releases.tested import RECOMMENDED, TESTED
from .start import preload
from .start.activate import failed_actions
from .start.enabling import enabling_file

_PACKAGES = ("torch", "torch_npu")
WORKS = "works"


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
    runtime_reason: str | None = None
    device: dict[str, Any] | None = None
    registered: dict[str, int] = field(default_factory=dict)
    chip: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    features: dict[str, str] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)
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
    steps = (_enabled, _versions, _runtime, _import, _build, _device, _registered, _private_apis, _modes, _features)
    for step in steps:
        try:
            step(diagnosis)
        except Exception as error:
            diagnosis.problems.append(Problem(first_line(error), _remedy(step)))
        if failed_actions:
            diagnosis.problems = [_explain_failed_action()]  # the others follow from it
        if diagnosis.problems:
            break
    diagnosis.plugins = {problem.entry_point: problem.reason for problem in plugin_problems}
    return diagnosis


def _explain_failed_action() -> Problem:
    """The first error of the package's own extension of a module, which may have passed unseen."""
    module, error = next(iter(failed_actions.items()))
    what = f"graph_quant cannot extend {module}: {type(error).__name__}: {first_line(error)}"
    return Problem(what, "install a tested release, or report this with the output of --json")


def _enabled(diagnosis: Diagnosis) -> None:
    diagnosis.enabled = enabling_file().exists()


def _versions(diagnosis: Diagnosis) -> None:
    for package in _PACKAGES:
        try:
            diagnosis.versions[package] = version(package)
        except PackageNotFoundError:
            diagnosis.versions[package] = None
            fix = f"pip install {package}=={RECOMMENDED}"
            diagnosis.problems.append(Problem(f"{package} is not installed", fix))
    if diagnosis.problems:
        return
    _compare_versions(diagnosis)
    release = str(diagnosis.versions["torch_npu"])
    if release.partition("+")[0] not in TESTED:
        tested = ", ".join(TESTED)
        diagnosis.warnings.append(f"torch_npu {release} is installed; this release is tested with {tested}")


def _compare_versions(diagnosis: Diagnosis) -> None:
    """Find a torch for which torch_npu was not built, before both are loaded: their libraries would not fit."""
    requirements = (Requirement(line) for line in requires("torch_npu") or ())
    specifiers = [str(one.specifier) for one in requirements if one.name == "torch"]
    numbers = re.search(r"==\s*(\d+)\.(\d+)", specifiers[0] if specifiers else "")
    if numbers is None:
        return
    built_for, installed = tuple(map(int, numbers.groups())), Version(str(diagnosis.versions["torch"])).release[:2]
    if built_for != installed:
        release = ".".join(map(str, built_for))
        what = f"torch_npu {diagnosis.versions['torch_npu']} is built for torch {release}"
        what += f", and torch {diagnosis.versions['torch']} is installed"
        fix = f"pip install 'torch=={release}.*', or the torch_npu of torch {'.'.join(map(str, installed))}"
        diagnosis.problems.append(Problem(what, fix))


def _runtime(diagnosis: Diagnosis) -> None:
    if preload.switch() != "off" and not preload.is_built():
        fix = "reinstall graph-quant with pip; in a clone, run `make setup`"
        diagnosis.problems.append(Problem("the host NPU's libraries are missing from this installation", fix))
        return
    diagnosis.runtime = preload.choose()
    diagnosis.runtime_reason = preload.explain()
    if diagnosis.runtime == preload.NONE:
        what = f"{preload.SWITCH}=off, and no CANN can be loaded"
        fix = f"unset {preload.SWITCH} to use the host NPU, or source CANN's set_env.sh"
        diagnosis.problems.append(Problem(what, fix))


def _import(_diagnosis: Diagnosis) -> None:
    import torch_npu  # noqa: F401


def _build(diagnosis: Diagnosis) -> None:
    import torch

    if torch.version.cuda:
        diagnosis.features["CUDA build of torch"] = f"works beside torch_npu (CUDA {torch.version.cuda}, not used)"


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
    on = chip.current()
    described = sum(on in record.chips for record in records)
    diagnosis.chip = {"name": on.name, "described": described, "refused": len(records) - described}


def _modes(diagnosis: Diagnosis) -> None:
    from .modes import try_modes

    diagnosis.modes = try_modes()
    for mode, outcome in diagnosis.modes.items():
        if outcome != WORKS and not outcome.startswith("off here: "):
            diagnosis.problems.append(Problem(f"graphs by {mode}: {outcome}", "use another mode, and report this one"))


def _features(diagnosis: Diagnosis) -> None:
    from . import native
    from .modes import try_ranks

    diagnosis.features["ranks"] = try_ranks()
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    diagnosis.features["engine inductor"] = WORKS if compiler else "off here: no C++ compiler on PATH"
    without = "off here: the processor has no AVX-512, or they are not built; torch computes the same"
    diagnosis.features["native kernels"] = WORKS if native.IS_SUPPORTED else without


def _is_ours(operator: Any) -> bool:
    return str(operator._ge_converter.__module__).startswith("graph_quant.converters")


def _private_apis(diagnosis: Diagnosis) -> None:
    """Name what is off because upstream lacks private names. What is on is tried afterwards."""
    from .private_apis import missing

    names: dict[str, list[str]] = defaultdict(list)
    for api in missing():
        names[api.breaks].append(api.path.replace(" ", ": ") + (f" ({', '.join(api.used_by)})" if api.used_by else ""))
    for consequence, paths in names.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        diagnosis.warnings.append(f"{consequence}: {paths[0]}{more} not in the installed torch, torch_npu or TorchAir")


def _remedy(step: Callable[[Diagnosis], None]) -> str:
    if step is _import and preload.chosen() == preload.HOST:
        return "run `graph-quant symbols`: a newer torch_npu may need functions that this release does not have"
    if step is _import:
        return f"source CANN's set_env.sh, or set {preload.SWITCH}=on to use the host NPU"
    return "run `graph-quant doctor --json` and report its output"
