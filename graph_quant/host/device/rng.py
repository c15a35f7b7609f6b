"""Random number generators: the NPU's keep the state, the CPU's produce the samples.

A generator of torch_npu holds a seed and an offset. Each random call gets a CPU generator seeded from the pair and
advances the offset, so that seeding, saving and restoring states work as they do on a device.
"""

import torch

from ...reference.rng import generator_at, next_seed_and_offset
from ..devices import current


def cpu_generator(generator: torch.Generator | None) -> torch.Generator:
    """Return the CPU generator for the next samples of an NPU generator (default: the device's own)."""
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError("Expected a 'npu' device type for generator but found 'cpu'")
    return generator_at(*next_seed_and_offset(generator if generator is not None else default_generator()))


def default_generator() -> torch.Generator:
    """Return the generator of the current device."""
    generator: torch.Generator = torch.npu.default_generators[current()]  # type: ignore[attr-defined]
    return generator
