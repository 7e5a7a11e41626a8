"""A headless Chromium that reaches nothing but this machine, for tests of what visitors see."""

import json
import shutil
from collections.abc import Iterator

import pytest

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--window-size=1400,1000", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator:
    """A browser window; skips where there is none."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs `pip install selenium`")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs a Chromium browser and its driver (Debian: apt-get install chromium chromium-driver)")
    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def requested_addresses(browser) -> set[str]:
    """Everything the page asked a network for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    return {row["request"]["url"] for row in sent}


def wait_for(browser, found, seconds: float = 30):
    """What `found(browser)` gives as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds).until(found)


def marked(browser) -> list[str]:
    """The passages of the note that are highlighted."""
    return [mark.text for mark in browser.find_elements("css selector", "mark.on")]
