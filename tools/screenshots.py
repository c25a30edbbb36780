#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the page for the documentation: ``tools/screenshots.py [FOLDER]``.

It runs the demo and opens its page in headless Chromium. The pictures are JPEG files of less than 200 KB each, in
``doc/source/user/images``. It needs chromium, chromedriver and the package selenium.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FOLDER = Path(__file__).parents[1] / "doc" / "source" / "user" / "images"
WIDTH, HEIGHT = 1280, 800
QUALITY = 70
PATIENCE_SECONDS = 180

COMPLETE = """
return document.querySelectorAll('.group').length > 1 && !document.querySelector('.source.late, .source.dead')
  && !document.body.innerText.includes('Inventory incomplete');
"""
"""Whether the page shows hosts and clusters, and every source and inventory is complete."""


@contextlib.contextmanager
def demonstration() -> Iterator[str]:
    """The address of the page of a running demo."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as state:
        program = Path(sys.executable).with_name("watcher-sync")
        command = [str(program), "demo", "--plain", "--no-nats", "--port", str(port), "--state-path", state]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}/"
            wait_until(lambda: answers(url), "the demo")
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A headless browser with a window of one size."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    chrome = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield chrome
    finally:
        chrome.quit()


def picture(chrome: webdriver.Chrome, file: Path) -> None:
    """Stores what the window shows."""
    answer = chrome.execute_cdp_cmd("Page.captureScreenshot", {"format": "jpeg", "quality": QUALITY})
    file.write_bytes(base64.b64decode(answer["data"]))
    print(f"{file}: {file.stat().st_size // 1024} KB")


def answers(url: str) -> bool:
    """Whether the server is there."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(holds: Callable[[], object], what: str) -> None:
    """:raises TimeoutError: it does not become true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.2)


def main() -> int:
    """Makes the pictures; the exit status."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with demonstration() as url, browser() as chrome:
        chrome.get(url)
        wait_until(lambda: chrome.execute_script("return document.querySelectorAll('.change').length") > 15, "changes")
        wait_until(lambda: chrome.execute_script("return document.querySelectorAll('[data-id]').length") > 30, "hosts")
        wait_until(lambda: chrome.execute_script(COMPLETE), "clusters and fresh sources")
        picture(chrome, folder / "page.jpg")
        chrome.execute_script("document.querySelectorAll('[data-id]')[8].click()")
        wait_until(lambda: chrome.execute_script("return document.querySelector('.entity .kind') !== null"), "a host")
        wait_until(lambda: chrome.execute_script("return document.querySelectorAll('.member').length"), "instances")
        picture(chrome, folder / "page-host.jpg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
