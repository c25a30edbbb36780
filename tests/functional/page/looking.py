# SPDX-License-Identifier: Apache-2.0
"""What a person does with the page and sees on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from tests.waiting import PATIENCE_SECONDS, seconds_until, wait_until

SCREENSHOTS = "WATCHER_SYNC_TEST_SCREENSHOTS"

WIDE = (1440, 900)
PHONE = (390, 844)


FOCUSED = """
const e = document.activeElement;
return e.id || e.className || `${e.tagName.toLowerCase()} ${e.innerText}`;
"""


# The element and the work on it are one script, so that the page cannot replace the element between the two.
ON = """
const [selector, text, ...given] = arguments;
const found = [...document.querySelectorAll(selector)];
const one = found.find((each) => each.textContent.startsWith(text) && !each.disabled && each.ariaDisabled !== 'true');
return one ? {value: ((one, given) => { %s })(one, given) ?? null} : null;
"""

PRESS = "one.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"

TEXTS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText ?? one.textContent)"

PLACE = """
const one = document.querySelector(arguments[0]);
if (!one) return null;
const {x, y, width, height} = one.getBoundingClientRect();
return [x, y, width, height];
"""

_REDRAWN = (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException)
"""What an element raises that was replaced, or moved, since it was found. Nothing was done with it then."""

_STILL_SECONDS = 0.05
"""How long an element rests before it is clicked: one that moves would get half of a click."""


class Page:
    """The page in a browser."""

    def __init__(self, browser: WebDriver, url: str) -> None:
        self.browser = browser
        self.url = url.rstrip("/")

    def open(self, fragment: str = "") -> None:
        """Loads the page again."""
        self.browser.get("about:blank")
        # The list of changes does not move while the pointer is on it, wherever the last click was.
        away = {"type": "mouseMoved", "x": 1, "y": 1}
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", away)  # type: ignore[attr-defined]
        self.browser.get(f"{self.url}/{fragment}")

    def wait_live(self) -> None:
        """Wait until hosts are drawn and the stream runs."""
        wait_until(lambda: self.all(".connection.live") and self.all(".tile"), 60, "the live page")

    def all(self, selector: str) -> list[WebElement]:
        """What a CSS selector finds."""
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of the first; empty where there is none."""
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''"
        return str(self.run(script, selector))

    def wait_text(self, selector: str, text: str, seconds: float = PATIENCE_SECONDS) -> float:
        """Wait until the text of the first contains this; after how many seconds it did."""
        return seconds_until(lambda: text in self.text(selector), seconds, f"{text!r} in {selector}")

    def texts(self, selector: str) -> list[str]:
        """The texts of all, at one moment."""
        return [str(text) for text in self.run(TEXTS, selector)]

    def click(self, selector: str) -> None:
        """The first, by the mouse, once it is there and does not move."""
        wait_until(lambda: self._is_still(selector), what=f"{selector} at rest")
        self._repeated(selector, lambda: self.all(selector)[0].click())

    def fill(self, selector: str, *keys: str) -> None:
        """Type into the first, once it is there."""
        self._repeated(selector, lambda: self.all(selector)[0].send_keys(*keys))

    def clear(self, selector: str) -> None:
        """Empty the first, once it is there."""
        self._repeated(selector, lambda: self.all(selector)[0].clear())

    def press(self, *keys: str) -> None:
        """Keys, one after the other, into whatever has the focus."""
        for key in keys:
            self._repeated("what has the focus", lambda key=key: self.browser.switch_to.active_element.send_keys(key))

    def search(self, field: str, text: str) -> None:
        """The key that leads to the field of this id, and then the text."""
        self.press("/")
        wait_until(lambda: self.focused() == field, what=f"the focus of {field}")
        self.press(*text)

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

    def on(self, selector: str, script: str, *arguments: Any, text: str = "") -> Any:
        """JavaScript with an element, once that is there and not disabled.

        :param script: its function has the element as ``one``, and the arguments as ``given``.
        :param text: how the text of the element begins; the first such one is taken.
        """
        found = wait_until(lambda: self.run(ON % script, selector, text, *arguments), what=f"{selector} {text}")
        return found["value"]

    def choose(self, selector: str, text: str = "") -> None:
        """A click on the first whose text begins so, wherever it is, once it is there and not disabled."""
        self.on(selector, PRESS, text=text)

    def _is_still(self, selector: str) -> bool:
        before = self.run(PLACE, selector)
        time.sleep(_STILL_SECONDS)
        return before is not None and self.run(PLACE, selector) == before

    @staticmethod
    def _repeated(what: str, act: Callable[[], object]) -> None:
        """Act on an element until it was there all the time."""

        def acted() -> bool:
            try:
                act()
            except (IndexError, *_REDRAWN):
                return False
            return True

        wait_until(acted, what=what)

    def complaints(self) -> list[str]:
        """Everything that the browser logged since it was asked before: violations, errors, warnings."""
        return [entry["message"] for entry in self.browser.get_log("browser")]  # type: ignore[attr-defined]

    def media(self, **features: str) -> None:
        """What the system prefers, such as ``prefers-color-scheme``."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})  # type: ignore[attr-defined]
        for feature in listed:
            query = "({name}: {value})".format(**feature)
            wait_until(lambda query=query: self.run("return matchMedia(arguments[0]).matches", query), what=query)

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
