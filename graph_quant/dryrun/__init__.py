"""A dry run: what a model or a script would become on an NPU, lowered and not run."""

from .api import dry_run_script, plan
from .findings import DryGraph, DryRun, Finding

__all__ = ["DryGraph", "DryRun", "Finding", "dry_run_script", "plan"]
