"""Fused graphs: each fusion is compared with what it replaces, and the compiled graph with the fused FX graph."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ... import fusions
from ..report.report import BrokenFusion, Report
from .eager import copy_written, preserve_global_state
from .region import current_region_call


class Fused:
    """A graph before fusions and after those in effect; ``module`` is what the compiler lowers."""

    def __init__(self, unfused: fx.GraphModule) -> None:
        self._unfused = unfused
        self._names = fusions.current()
        self.module = unfused
        self.is_fused = False
        if self._names:
            module = fx.GraphModule(unfused, copy.deepcopy(unfused.graph))
            if fusions.apply_selected(module, self._names).fused:
                self.module, self.is_fused = module, True

    def check(self, inputs: Sequence[Any], report: Report) -> None:
        """Compare each fusion with what it replaces, for the inputs of a call."""
        if not self.is_fused:
            return
        from ...fusions.check import check_fusions

        with preserve_global_state(), torch.no_grad():
            deviations = check_fusions(self._unfused, self._names, copy_written(inputs, None))
        report.is_fused = True
        report.passes += [BrokenFusion(str(deviation)) for deviation in deviations]
        region_call = current_region_call()
        if region_call is not None:
            region_call.fused = region_call.fused is not False and not deviations
