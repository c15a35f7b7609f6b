"""The report of several ranks, joined from theirs."""

import argparse
import json

import pytest
from graph_quant.cli import rank_reports, ranks, script_options
from graph_quant.cli.errors import UsageError


def report(rank: int, ok: bool) -> dict[str, object]:
    return {"title": f"x.py, rank {rank} of 2", "verdict": "equal" if ok else "a < b & c", "ok": ok}


def test_joined_report_is_ok_if_every_rank_is() -> None:
    for second in (True, False):
        ranks = [report(0, True), report(1, second)]
        assert json.loads(rank_reports._join_json(ranks, 2)) == {"ok": second, "ranks": ranks}


def test_joined_page_opens_the_first_failing_rank() -> None:
    page = rank_reports._join_pages([report(0, True), report(1, False)], ["<p>first</p>", '<p class="second"></p>'])
    assert page.count("<iframe") == 2
    assert '<details><summary>x.py, rank 0 of 2: equal</summary><iframe srcdoc="&lt;p&gt;first' in page
    assert "<details open><summary>x.py, rank 1 of 2: a &lt; b &amp; c" in page
    assert "&lt;p class=&quot;second&quot;&gt;" in page


def test_output_options_are_not_passed_to_ranks() -> None:
    own = ["verify", "--ranks", "2", "--json", "a.json", "--min-sqnr", "40", "--html=b.html"]
    options = argparse.Namespace(own=own, arguments=["x.py", "--json"])
    command = script_options.rank_command("verify", options, "--ranks", "--json", "--html")
    assert command[1:] == ["-m", "graph_quant", "verify", "--min-sqnr", "40", "--", "x.py", "--json"]


def test_rank_without_a_report_fails() -> None:
    assert not json.loads(rank_reports._join_json([report(0, True)], 2))["ok"]
    assert not json.loads(rank_reports._join_json([], 2))["ok"]


def test_missing_reports_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "run_ranks", lambda *_, **__: 0)
    options = argparse.Namespace(own=["verify", "--ranks", "2", "x.py"], arguments=[], ranks=2, json=None, html=None)
    options.script = "x.py"
    with pytest.raises(UsageError, match="of 2 ranks, 2 left no report"):
        rank_reports.verify_ranks(options)
