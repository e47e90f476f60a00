"""A headless Chromium for tests and screenshots (Debian: ``apt-get install chromium chromium-driver``)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def why_not() -> str:
    """What is missing to start a browser; ``""`` if nothing is."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found (Debian: apt-get install chromium chromium-driver)" if missing else ""


@contextmanager
def chromium(width: int = 1280, height: int = 1000, dark: bool = False) -> Iterator[Any]:
    """A browser that is closed afterwards. It keeps what pages write to the console (``get_log("browser")``)."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(60)
        yield driver
    finally:
        driver.quit()


def settled(driver: Any, most: float = 60) -> float:
    """Wait until the playground's page shows the answer to its last request. Returns the milliseconds that it took."""
    import time

    from selenium.webdriver.support.ui import WebDriverWait

    script = "return [typeof newest === 'number' ? newest : -1, document.body.dataset.step, document.body.dataset.took]"

    def done(_: Any) -> bool:
        newest, shown, _took = driver.execute_script(script)
        return newest > 0 and str(newest) == shown

    WebDriverWait(driver, most, poll_frequency=0.01).until(done)
    time.sleep(0)
    return float(driver.execute_script(script)[2])
