"""Which release of CANN the host NPU reports: the one that the installed torch_npu was released for.

Standard library only, and little of it: the host NPU is loaded by it before torch_npu.
"""

from __future__ import annotations

import os
import re
from importlib.machinery import PathFinder

VARIABLE = "GRAPH_QUANT_CANN"
# The newest release that torch_npu's page of versions names; releases of torch_npu that it does not name are newer.
NEWEST = "9.1.0"
# The first release of torch_npu for a release of CANN, by the release of torch.
_FIRST_POST = {
    "2.7.1": {"8.3.0": 0, "8.5.0": 2, "9.0.0": 4, "9.1.0": 8},
    "2.8.0": {"8.3.0": 0, "8.5.0": 2, "9.0.0": 4},
    "2.9.0": {"8.5.0": 0, "9.0.0": 2, "9.1.0": 6},
    "2.10.0": {"9.0.0": 0, "9.1.0": 4},
}


def version() -> str:
    """The version that the host NPU reports, as three numbers: GRAPH_QUANT_CANN, or what torch_npu was released for.

    Raises:
        ValueError: GRAPH_QUANT_CANN is not a version such as 9.1 or 9.1.0.
    """
    requested = os.environ.get(VARIABLE, "")
    if not requested:
        return for_torch_npu(_torch_npu_version())
    if not re.fullmatch(r"\d\.\d(\.\d)?", requested, re.ASCII):
        raise ValueError(f"{VARIABLE} must be a version of CANN such as 9.1 or 9.1.0, got {requested!r}")
    return requested if requested.count(".") == 2 else f"{requested}.0"


def is_at_least(release: str) -> bool:
    """Whether the release of CANN is ``release``, such as 9.0, or a later one."""
    return [*map(int, version().split("."))] >= [*map(int, release.split("."))]


def for_torch_npu(release: str) -> str:
    """The release of CANN that a release of torch_npu, such as 2.10.0.post4, was made for."""
    torch, _, post = release.partition(".post")
    first = _FIRST_POST.get(torch, {})
    number = int(post) if post.isdecimal() else 0
    return max((cann for cann, least in first.items() if number >= least), default=NEWEST)


def _torch_npu_version() -> str:
    """The version of the installed torch_npu, read without importing it; empty where there is none."""
    spec = PathFinder.find_spec("torch_npu")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        try:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                match = re.search(r"__version__\s*=\s*['\"]([0-9.]+(?:\.post\d+)?)", file.read())
        except OSError:
            continue
        if match:
            return match[1]
    return ""
