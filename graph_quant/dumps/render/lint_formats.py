"""Lint findings for other programs: GitHub annotations, SARIF, JUnit and JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ...ge import printable
from ..analyse.lint import Finding, Rule, Severity

if TYPE_CHECKING:
    from ..analyse.lint_report import CheckedDump

_LONGEST = 300
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
# The words of GitHub's workflow commands, and of SARIF, for a severity.
_ANNOTATIONS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def to_annotations(checked: Sequence[CheckedDump], least: Severity = Severity.WARNING) -> str:
    r"""Format new findings as workflow commands, which GitHub shows at the Python line.

    Args:
        checked: The results of `check_dump`.
        least: The lowest severity to write.

    Returns:
        One line for each finding.

    Examples:
        >>> print(to_annotations([check_dump(load("graph.txt"), "graph.txt")]), end="")
    """
    lines = []
    for result, finding in _select(checked, least):
        file, line = _location(result, finding)
        properties = {"file": file, **({"line": str(line)} if line else {}), "title": f"graph-quant {finding.rule.id}"}
        written = ",".join(f"{name}={_escape(value, ',:')}" for name, value in properties.items())
        message = _escape(f"{_sentence(result, finding)}\n{finding.rule.why}\nfix: {finding.rule.fix}")
        lines.append(f"::{_ANNOTATIONS[finding.rule.severity]} {written}::{message}\n")
    return "".join(lines)


def _escape(text: str, more: str = "") -> str:
    """Escape text as GitHub's runner reads it."""
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def to_sarif(checked: Sequence[CheckedDump], version: str, least: Severity = Severity.WARNING) -> str:
    """Format findings as SARIF 2.1.0, which code scanning services read.

    Args:
        checked: The results of `check_dump`.
        version: The version of the package.
        least: The lowest severity to write.

    Returns:
        The text of the file. Findings of a baseline are ``unchanged``.

    Examples:
        >>> Path("lint.sarif").write_text(to_sarif(checked, graph_quant.__version__))
    """
    rules: dict[str, Rule] = {}
    results = []
    for result, finding in _select(checked, least, new_only=False):
        rules.setdefault(finding.rule.id, finding.rule)
        results.append(_sarif_result(result, finding, list(rules).index(finding.rule.id)))
    driver = {
        "name": "graph-quant",
        "version": version,
        "informationUri": "https://pypi.org/project/graph-quant/",
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.why},
                "help": {"text": f"fix: {rule.fix}"},
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
            }
            for rule in rules.values()
        ],
    }
    runs = [{"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}]
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": runs}, indent=1) + "\n"


def _sarif_result(result: CheckedDump, finding: Finding, index: int) -> dict[str, Any]:
    file, line = _location(result, finding)
    physical: dict[str, Any] = {"artifactLocation": {"uri": Path(file).as_posix()}}
    if line:
        physical["region"] = {"startLine": line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.node:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.location, _LONGEST), "kind": "node"}]
    identity = repr((result.name, finding.rule.id, finding.location, finding.message)).encode()
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": _LEVELS[finding.rule.severity],
        "message": {"text": _sentence(result, finding)},
        "locations": [location],
        "partialFingerprints": {"graphQuant/v1": hashlib.blake2b(identity, digest_size=16).hexdigest()},
        "baselineState": "new" if _is_new(result, finding) else "unchanged",
    }


def to_junit(checked: Sequence[CheckedDump], failing: Severity | None = Severity.ERROR) -> str:
    """Format findings as JUnit XML: a test suite for each dump, a test for each rule with findings.

    Args:
        checked: The results of `check_dump`.
        failing: The lowest severity that fails; None for none. Other findings are output of a passed test.

    Returns:
        The text of the file.

    Examples:
        >>> Path("lint.xml").write_text(to_junit(checked))
    """
    root = ElementTree.Element("testsuites", name="graph-quant lint")
    for result in checked:
        rules = {finding.rule.id: finding.rule for finding in result.findings}
        suite = ElementTree.SubElement(root, "testsuite", name=printable(str(result.path), _LONGEST))
        failures = errors = 0
        for rule in rules.values():
            case = ElementTree.SubElement(suite, "testcase", name=rule.id, classname=printable(result.name, _LONGEST))
            findings = [finding for finding in result.findings if finding.rule.id == rule.id]
            new = [finding for finding in findings if _is_new(result, finding)]
            text = "\n".join([*(_sentence(result, finding) for finding in new or findings), rule.why, rule.fix])
            if not result.is_readable:
                errors += 1
                ElementTree.SubElement(case, "error", message=findings[0].message, type=rule.id).text = text
            elif new and failing is not None and rule.severity >= failing:
                failures += 1
                message = printable(new[0].message, _LONGEST)
                ElementTree.SubElement(case, "failure", message=message, type=rule.id).text = text
            else:
                ElementTree.SubElement(case, "system-out").text = text
        if not rules:
            ElementTree.SubElement(suite, "testcase", name="lint", classname=printable(result.name, _LONGEST))
        suite.attrib |= {"tests": str(max(len(rules), 1)), "failures": str(failures), "errors": str(errors)}
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def to_lint_json(checked: Sequence[CheckedDump]) -> str:
    """Format all findings as a JSON list.

    Args:
        checked: The results of `check_dump`.

    Returns:
        The list; ``new`` is stated where a finding is in a baseline.

    Examples:
        >>> json.loads(to_lint_json(checked))[0]["rule"]
    """
    return json.dumps([_facts(result, finding) for result in checked for finding in result.findings], indent=1) + "\n"


def _facts(result: CheckedDump, finding: Finding) -> dict[str, Any]:
    source = result.source(finding)
    return {
        "dump": str(result.path),
        "severity": str(finding.rule.severity),
        "rule": finding.rule.id,
        "node": finding.node,
        **({"graph": finding.graph} if finding.graph else {}),
        **({"module": source.module} if source.module else {}),
        **({"file": source.file, "line": source.line} if source.file else {}),
        "message": finding.message,
        **({} if _is_new(result, finding) else {"new": False}),
        "why": finding.rule.why,
        "way_out": finding.rule.fix,
    }


def _select(
    checked: Sequence[CheckedDump], least: Severity, *, new_only: bool = True
) -> Iterator[tuple[CheckedDump, Finding]]:
    for result in checked:
        for finding in result.new if new_only else result.findings:
            if finding.rule.severity >= least:
                yield result, finding


def _is_new(result: CheckedDump, finding: Finding) -> bool:
    return any(finding is other for other in result.new)


def _location(result: CheckedDump, finding: Finding) -> tuple[str, int]:
    """File and line: the Python line where it is known, otherwise the dump; relative to the current folder."""
    source = result.source(finding)
    file = Path(source.file) if source.file else result.path
    with_root = file.absolute()
    return (str(with_root.relative_to(Path.cwd())) if with_root.is_relative_to(Path.cwd()) else str(file)), source.line


def _sentence(result: CheckedDump, finding: Finding) -> str:
    module = result.source(finding).module
    where = printable(finding.location, 160) + (f" in module {printable(module, 120)}" if module else "")
    message = printable(finding.message, _LONGEST)
    return f"{where}: {message}" if finding.node else f"{printable(str(result.path), 200)}: {message}"
