# SPDX-License-Identifier: Apache-2.0
"""What a person does with the page and sees on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from tests.functional.engine.driving import wait_until

SCREENSHOTS = "WATCHER_SYNC_TEST_SCREENSHOTS"

WIDE = (1440, 900)
PHONE = (390, 844)


FOCUSED = """
const e = document.activeElement;
return e.id || e.className || `${e.tagName.toLowerCase()} ${e.innerText}`;
"""


class Page:
    """The page in a browser."""

    def __init__(self, browser: WebDriver, url: str) -> None:
        self.browser = browser
        self.url = url.rstrip("/")

    def open(self, fragment: str = "") -> None:
        """Loads the page again."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.url}/{fragment}")

    def wait_live(self) -> None:
        """Wait until hosts are drawn and the stream runs."""
        wait_until(lambda: self.all(".connection.live") and self.all(".tile"), 20, "the live page")

    def all(self, selector: str) -> list[WebElement]:
        """What a CSS selector finds."""
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of the first; empty where there is none."""
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''"
        return str(self.run(script, selector))

    def wait_text(self, selector: str, text: str, seconds: float = 10) -> float:
        """Wait until the text of the first contains this; after how many seconds it did."""
        return wait_until(lambda: text in self.text(selector), seconds, f"{text!r} in {selector}")

    def click(self, selector: str) -> None:
        """The first, by the mouse."""
        self.all(selector)[0].click()

    def press(self, *keys: str) -> None:
        """Keys, one after the other, into whatever has the focus."""
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def tab_stops(self, most: int = 60) -> list[str]:
        """What Tab comes by from the beginning of the document: class or id of each."""
        stops: list[str] = []
        for _ in range(most):
            self.press(Keys.TAB)
            stop = self.focused()
            if stop in stops[:1]:
                break
            stops.append(stop)
        return stops

    def focused(self) -> str:
        """What has the focus: id, else classes, else the element's name."""
        return str(self.run(FOCUSED))

    def run(self, script: str, *arguments: Any) -> Any:
        """JavaScript, which the page's own policy does not bind."""
        return self.browser.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """Everything that the browser logged since it was asked before: violations, errors, warnings."""
        return [entry["message"] for entry in self.browser.get_log("browser")]  # type: ignore[attr-defined]

    def media(self, **features: str) -> None:
        """What the system prefers, such as ``prefers-color-scheme``."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})  # type: ignore[attr-defined]

    def size(self, width: int, height: int) -> None:
        """The window's, as a phone or a desk has it."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)  # type: ignore[attr-defined]

    def screenshot(self, name: str, folder: Path) -> Path:
        """Stores a picture of the window, in the folder that the environment names or else in ``folder``."""
        place = Path(os.environ.get(SCREENSHOTS) or folder)
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{name}.png"
        assert self.browser.save_screenshot(str(file))
        return file
