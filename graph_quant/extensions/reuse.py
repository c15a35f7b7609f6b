"""Use of the package's own records for operators that are torch_npu's under another name."""

from __future__ import annotations

from typing import Any

from graph_quant.meta import Operator, Plan, Rules


def plan_as(record: Operator, rules: Rules, *arguments: Any, **named: Any) -> Plan:
    """Return the plan of another operator's rules; a refusal names the operator of ``rules``."""
    assert record.rules is not None
    return record.rules(rules, *arguments, **named)
