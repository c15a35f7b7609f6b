"""A dry run: what a model or a script would become on an NPU, lowered and not run."""

from .api import plan, plan_script
from .findings import DryGraph, DryRun, Spot

__all__ = ["DryGraph", "DryRun", "Spot", "plan", "plan_script"]
