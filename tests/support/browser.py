"""A real Chromium, driven through its driver."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --window-size=1500,950"
)


def chromium(downloads: Path | None = None) -> Any | None:
    """A browser that keeps what it downloads in a folder; None where this machine has no Chromium with its driver."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in OPTIONS.split():
        options.add_argument(option)
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
