"""The built site: every link leads somewhere, nothing is loaded from the network, and the search finds pages.

`make docs` builds the site and runs these tests; without it they are skipped.
"""

import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import chromium

SITE = Path(os.environ.get("GRAPH_QUANT_SITE", "")).resolve()
pytestmark = pytest.mark.skipif("GRAPH_QUANT_SITE" not in os.environ, reason="`make docs` builds the site and tests it")
REMOTE = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    return {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(unescape(link))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            known = pages[target].anchors if target in pages else set()
            if not target.exists() or (fragment and target in pages and fragment not in known):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_the_network() -> None:
    assert [path.name for path in SITE.rglob("*.html") if REMOTE.search(path.read_text(encoding="utf-8"))] == []


def test_every_public_name_is_on_an_api_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (SITE / "api").glob("*.html"))
    for name in ("graph_quant.verification.verify", "graph_quant.dryrun.plan", "graph_quant.nn.quantize_"):
        assert f'id="{name}"' in pages


def test_search_works_from_disk() -> None:
    browser = chromium()
    if browser is None:
        pytest.skip("this machine has no Chromium with its driver")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        browser.get(f"{(SITE / 'index.html').as_uri()}?q=npu_group_quant")
        links = (By.CSS_SELECTOR, ".md-search-result__link")
        WebDriverWait(browser, 30).until(lambda _: browser.find_elements(*links))
        assert any("npu_group_quant" in str(link.get_attribute("href")) for link in browser.find_elements(*links))
        assert [entry for entry in browser.get_log("browser") if "ERR_" in entry["message"]] == []
    finally:
        browser.quit()
