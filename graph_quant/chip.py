"""The generations of NPU: what each has, and which one this process runs on.

Records and kernels declare the chips that they are described for. On the host device a chip without a description is
refused by name: the rules and the rounding of another chip would be an answer that looks right. On a device, whose own
kernels answer, such calls are left to upstream.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .refusals import UndescribedError

# The dtypes, by GE's names, that only Ascend 950 has.
NARROW_FLOATS = frozenset(
    {
        "hifloat8",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e8m0",
        "float6_e3m2",
        "float6_e2m3",
        "float4_e2m1",
        "float4_e1m2",
        "hifloat4",
    }
)


@dataclass(frozen=True)
class Chip:
    """A generation of NPU.

    Attributes:
        key: The short name, as command lines take it: ``A2``, ``A3``, ``950``, ``310P``.
        name: The name in messages.
        device: A device name of it, as ``GRAPH_QUANT_SOC`` takes it.
        prefixes: What its device names start with.
        lacks: GE's names of dtypes that its operators do not take.
    """

    key: str
    name: str
    device: str
    prefixes: tuple[str, ...]
    lacks: frozenset[str] = NARROW_FLOATS


A2 = Chip("A2", "Ascend A2", "Ascend910B3", ("Ascend910B",))
A3 = Chip("A3", "Ascend A3", "Ascend910_9392", ("Ascend910_93",))
ASCEND_950 = Chip(
    "950", "Ascend 950", "Ascend950PR_9589", ("Ascend950", "Ascend910_95", "Ascend95H"), frozenset({"hifloat4"})
)
ASCEND_310P = Chip("310P", "Ascend 310P", "Ascend310P3", ("Ascend310P",))

CHIPS = (A2, A3, ASCEND_950, ASCEND_310P)
# What a record without a declaration is described for.
A2_AND_A3 = (A2, A3)
A2_A3_950 = (A2, A3, ASCEND_950)

# What the names of torch's narrow floats start with.
_NARROW_IN_TORCH = ("torch.float8", "torch.float4")
# The conversions to narrow floats of torch that Ascend 950's Cast has.
_CONVERSIONS_950 = {
    (f"torch.{source}", f"torch.{target}")
    for source in ("float16", "bfloat16", "float32")
    for target in ("float8_e4m3fn", "float8_e5m2")
}
_DEFAULT_DEVICE = A2.device
_VARIABLE = "GRAPH_QUANT_SOC"
# Not of a thread: gradients are computed in threads of their own.
_chosen: Chip | None = None
# The function that reports the device name, and the chip that it reported.
_reported: tuple[Callable[..., Any], Chip] | None = None
_kernels_answer = False


def let_kernels_answer() -> None:
    """Record that this process runs on a device: calls without a description are left to its kernels."""
    global _kernels_answer
    _kernels_answer = True


def kernels_answer() -> bool:
    """Whether this process runs on a device, whose kernels answer what is not described here."""
    return _kernels_answer


def find_chip(text: str) -> Chip:
    """Return the chip of a short name or of a device name.

    Args:
        text: ``A2``, ``A3``, ``950`` or ``310P``, or a device name such as ``Ascend910_9392``.

    Returns:
        The chip.

    Raises:
        ValueError: No chip has that name.

    Examples:
        >>> find_chip("950").name
        'Ascend 950'
    """
    for chip in CHIPS:
        if text.upper() == chip.key or text == chip.name or text.startswith(chip.prefixes):
            return chip
    raise ValueError(f"no chip is named {text}; the chips are {', '.join(chip.key for chip in CHIPS)}")


def of_device(name: str) -> Chip:
    """Return the chip of a device name; one that is not listed is a chip of its own, with nothing described."""
    try:
        return find_chip(name)
    except ValueError:
        return Chip(name, name, name, (name,))


def current() -> Chip:
    """Return the chip of this process, or the one in use by ``use``."""
    global _reported
    if _chosen is not None:
        return _chosen
    if "torch_npu" not in sys.modules:  # a dump that is replayed or checked needs no device
        return of_device(os.environ.get(_VARIABLE) or _DEFAULT_DEVICE)
    import torch_npu.npu

    report = torch_npu.npu.get_device_name
    if _reported is not None and report is _reported[0]:
        return _reported[1]
    if not _kernels_answer and report.__module__.startswith("torch_npu") and not torch_npu.npu.is_initialized():
        # The host device will report this name; asking it now would initialise it.
        return of_device(os.environ.get(_VARIABLE) or _DEFAULT_DEVICE)
    chip = of_device(str(report()))
    _reported = report, chip
    return chip


@contextmanager
def use(chip: Chip) -> Iterator[None]:
    """Use the rules and kernels of ``chip`` inside the block."""
    global _chosen
    before, _chosen = _chosen, chip
    try:
        yield
    finally:
        _chosen = before


def has(chips: tuple[Chip, ...]) -> bool:
    """Whether the chip in use is one of ``chips``, or its kernels answer."""
    return _kernels_answer or current() in chips


def require_described(subject: str, chips: tuple[Chip, ...]) -> None:
    """Refuse ``subject`` on the host device if the chip in use is not one of ``chips``."""
    if not has(chips):
        raise UndescribedError(f"{subject}: {explain_missing(current(), chips)}")


def converts_on_950(source: Any, target: Any) -> bool:
    """Whether Ascend 950's conversion between two dtypes, one of them a narrow float, is described."""
    return (str(source), str(target)) in _CONVERSIONS_950


def check_conversion(subject: str, source: Any, target: Any) -> None:
    """Refuse a conversion to a narrow float on Ascend 950 that is not described."""
    if converts_on_950(source, target):
        return
    if source is not target and str(target).startswith(_NARROW_IN_TORCH):
        require_described(f"{subject} from {source} to {target}", A2_AND_A3)


def explain_missing(chip: Chip, chips: tuple[Chip, ...]) -> str:
    """Return why a subject that is described for ``chips`` is refused on ``chip``."""
    if chips == (ASCEND_950,) and chip in A2_AND_A3:
        return f"it must run on {ASCEND_950.name}, which alone has a kernel for it, got Ascend A2 or A3"
    return f"not described for {chip.name} yet"


def leaves_refused_calls_to_upstream() -> bool:
    """Whether calls that the rules refuse go to upstream: on a device of another chip than A2 and A3."""
    return _kernels_answer and current() not in A2_AND_A3


def is_950() -> bool:
    """Whether this process runs on Ascend 950."""
    return current() is ASCEND_950


def is_a3() -> bool:
    """Whether this process runs on Atlas A3, or on a host device that reports it."""
    return current() is A3
