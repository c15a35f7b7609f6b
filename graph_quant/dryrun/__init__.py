"""Dry runs: a model or script is traced and lowered for an NPU, but its graphs are not executed."""

from .api import dry_run_script, plan
from .findings import DryGraph, DryRun, DryRunFinding
from .streams import StreamCount, count_streams

__all__ = ["DryGraph", "DryRun", "DryRunFinding", "StreamCount", "count_streams", "dry_run_script", "plan"]
