"""HTML pages from templates, one file each, with all values escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment(package: str) -> Environment:
    loader = PackageLoader(package, "")
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(package: str, template: str, **values: Any) -> str:
    """Render ``template``, a file of ``package``, with ``values``."""
    return _environment(package).get_template(template).render(values)
