"""Read, compare, check and replay GE graph dumps.

Names are imported on first use, so that a command loads only the modules that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from warnings import warn

from ..discovery import load_attribute

if TYPE_CHECKING:
    from .analyse.apply_passes import pass_summary_lines as pass_summary_lines
    from .analyse.apply_passes import run_passes as run_passes
    from .analyse.baseline import Baseline as Baseline
    from .analyse.baseline import name_dumps as name_dumps
    from .analyse.call_check import CallReport as CallReport
    from .analyse.call_check import check_calls as check_calls
    from .analyse.call_check import compare_calls as compare_calls
    from .analyse.call_check import reports_to_json as reports_to_json
    from .analyse.cost import Costs as Costs
    from .analyse.device_check import check_device_data as check_device_data
    from .analyse.limits import LIMIT_RULES as LIMIT_RULES
    from .analyse.limits import GateLimits as GateLimits
    from .analyse.limits import check_limits as check_limits
    from .analyse.limits import measure_size as measure_size
    from .analyse.lint import Finding as Finding
    from .analyse.lint import Severity as Severity
    from .analyse.lint import check_rule_names as check_rule_names
    from .analyse.lint import lint as lint
    from .analyse.lint import lint_rules as lint_rules
    from .analyse.lint_chips import lint_for as lint_for
    from .analyse.lint_report import CheckedDump as CheckedDump
    from .analyse.lint_report import check_dump as check_dump
    from .analyse.pass_history import History as History
    from .analyse.pass_history import group_pass_dumps as group_pass_dumps
    from .analyse.pass_history import trace_passes as trace_passes
    from .analyse.profile import join_profile as join_profile
    from .analyse.profile import read_profile as read_profile
    from .analyse.replay import read_tensors as read_tensors
    from .analyse.replay import replay as replay
    from .analyse.replay import write_tensors as write_tensors
    from .analyse.roofline import PEAK_SOURCE as PEAK_SOURCE
    from .analyse.roofline import find_chip as find_chip
    from .analyse.roofline import roofline_bound as roofline_bound
    from .dump import Dump as Dump
    from .dump import from_graph as from_graph
    from .dump import load as load
    from .errors import DumpError as DumpError
    from .errors import MissingInputError as MissingInputError
    from .errors import SizeError as SizeError
    from .errors import TooLargeError as TooLargeError
    from .graph.node_text import format_quantity as format_quantity
    from .read.device_data import DeviceData as DeviceData
    from .read.device_data import find_ge_dumps as find_ge_dumps
    from .read.folder import find_dumps as find_dumps
    from .read.folder import list_dumps as list_dumps
    from .read.formats import is_tape as is_tape
    from .read.msprobe import ProgramDump as ProgramDump
    from .read.msprobe import read_program_dumps as read_program_dumps
    from .read.tape import read_tape as read_tape
    from .render.lint_formats import to_annotations as to_annotations
    from .render.lint_formats import to_junit as to_junit
    from .render.lint_formats import to_lint_json as to_lint_json
    from .render.lint_formats import to_sarif as to_sarif
    from .render.page_title import page_title as page_title
    from .render.tape import tape_to_dot as tape_to_dot
    from .render.tape import tape_to_json as tape_to_json
    from .render.tape import tape_to_lines as tape_to_lines
    from .render.timing import Timing as Timing
    from .render.to_dot import to_dot as to_dot
    from .render.to_ge_onnx import to_ge_onnx as to_ge_onnx
    from .render.to_ge_proto import to_ge_proto as to_ge_proto
    from .render.to_ge_readable import to_ge_readable as to_ge_readable
    from .render.to_html import diff_page as diff_page
    from .render.to_html import to_html as to_html
    from .render.to_json import to_json as to_json
    from .render.to_onnx import to_onnx as to_onnx
    from .render.to_text import node_lines as node_lines
    from .render.to_text import summary_lines as summary_lines
    from .render.tree import tree_lines as tree_lines

_HOMES = {
    "analyse.baseline": ("Baseline", "name_dumps"),
    "analyse.cost": ("Costs",),
    "analyse.call_check": ("CallReport", "check_calls", "compare_calls", "reports_to_json"),
    "analyse.device_check": ("check_device_data",),
    "analyse.apply_passes": ("pass_summary_lines", "run_passes"),
    "analyse.limits": ("LIMIT_RULES", "GateLimits", "check_limits", "measure_size"),
    "analyse.lint": ("Finding", "Severity", "check_rule_names", "lint", "lint_rules"),
    "analyse.lint_report": ("CheckedDump", "check_dump"),
    "analyse.lint_chips": ("lint_for",),
    "analyse.pass_history": ("History", "trace_passes", "group_pass_dumps"),
    "analyse.profile": ("join_profile", "read_profile"),
    "analyse.replay": ("read_tensors", "replay", "write_tensors"),
    "analyse.roofline": ("PEAK_SOURCE", "roofline_bound", "find_chip"),
    "dump": ("Dump", "from_graph", "load"),
    "errors": ("DumpError", "MissingInputError", "SizeError", "TooLargeError"),
    "graph.node_text": ("format_quantity",),
    "read.device_data": ("DeviceData", "find_ge_dumps"),
    "read.folder": ("list_dumps", "find_dumps"),
    "read.formats": ("is_tape",),
    "read.msprobe": ("ProgramDump", "read_program_dumps"),
    "read.tape": ("read_tape",),
    "render.to_text": ("node_lines", "summary_lines"),
    "render.page_title": ("page_title",),
    "render.tape": ("tape_to_dot", "tape_to_json", "tape_to_lines"),
    "render.timing": ("Timing",),
    "render.lint_formats": ("to_annotations", "to_junit", "to_lint_json", "to_sarif"),
    "render.to_dot": ("to_dot",),
    "render.to_ge_proto": ("to_ge_proto",),
    "render.to_ge_onnx": ("to_ge_onnx",),
    "render.to_html": ("diff_page", "to_html"),
    "render.to_json": ("to_json",),
    "render.to_onnx": ("to_onnx",),
    "render.to_ge_readable": ("to_ge_readable",),
    "render.tree": ("tree_lines",),
}
# Names of version 0.1, which still work with a warning.
_RENAMED = {
    "SOURCE": "PEAK_SOURCE", "before_and_after": "pass_summary_lines", "bound": "roofline_bound", "chip": "find_chip",
    "dumps_in": "list_dumps", "history": "trace_passes", "join": "join_profile", "lean": "run_passes",
    "quantity": "format_quantity", "read_rows": "read_profile", "rules": "lint_rules", "series": "group_pass_dumps",
}  # fmt: skip
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warn(f"graph_quant.dumps.{name} is now graph_quant.dumps.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    value = globals()[name] = load_attribute(_RENAMED.get(name, name), _HOMES, __name__)
    return value
