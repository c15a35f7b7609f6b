"""Checks whether the results of a graph are right, and finds the first node that is wrong.

``verify`` runs a function eagerly and as a GE graph and compares them node by node. ``capture`` does the same to
every graph that code inside its block compiles for the NPU.
"""

from .errors import VerificationError
from .report.report import GraphReport, NodeReport, OutputReport, Report, Status, Thresholds
from .run.api import verify
from .run.interception import capture
from .run.progress import on_terminal
from .run.script import verify_script

__all__ = [
    "GraphReport",
    "NodeReport",
    "OutputReport",
    "Report",
    "Status",
    "Thresholds",
    "VerificationError",
    "capture",
    "on_terminal",
    "verify",
    "verify_script",
]
