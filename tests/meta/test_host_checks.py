"""The statement of the host checks that were read names operators and sources that exist."""

from graph_quant.meta import RECORDS, full
from graph_quant.meta.host_checks import READ, SOURCES


def test_every_operator_that_was_read_has_rules() -> None:
    unknown = [name for name in READ if full(name) not in RECORDS or RECORDS[full(name)].rules is None]
    assert unknown == []


def test_every_operator_names_a_source_and_its_folders() -> None:
    assert {read.source for read in READ.values()} <= set(SOURCES)
    assert all(read.folders for read in READ.values())
    assert list(READ) == sorted(READ)
