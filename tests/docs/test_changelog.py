"""The changelog has the form of Keep a Changelog, and the version is stated once."""

import re
from pathlib import Path

import graph_quant

ROOT = Path(__file__).parents[2]
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def test_the_newest_release_is_this_version() -> None:
    assert RELEASES[0].startswith("[Unreleased]")
    assert re.match(rf"\[{re.escape(graph_quant.__version__)}\] - \d{{4}}-\d\d-\d\d$", RELEASES[1].splitlines()[0])
    assert (ROOT / "docs" / "release-notes" / f"{graph_quant.__version__}.md").exists()


def test_pyproject_reads_the_version_from_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r"^version = .*", project, re.MULTILINE) == ['version = { attr = "graph_quant.__version__" }']


def test_sections_are_in_order_and_entries_are_single_sorted_lines() -> None:
    for release in RELEASES:
        parts = re.split(r"^### ", release, flags=re.MULTILINE)[1:]
        titles = [part.splitlines()[0] for part in parts]
        assert titles == [title for title in SECTIONS if title in titles]
        for part in parts:
            entries = [line for line in part.splitlines()[1:] if line]
            assert all(line.startswith("- ") and line.endswith(".") for line in entries)
            subjects = [re.split(r"[: ]", line.removeprefix("- ").replace("`", "~"))[0].lower() for line in entries]
            assert subjects == sorted(subjects)
