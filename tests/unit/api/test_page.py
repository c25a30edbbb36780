# SPDX-License-Identifier: Apache-2.0
"""The page's files: served as they lie there, under a strict policy, and other people's unmodified."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import re

import pytest

from watcher_sync.api.ui.page import INDEX, MEDIA_TYPES, assets

STATIC = importlib.resources.files("watcher_sync.api.ui") / "static"
VENDOR = STATIC / "vendor"


@pytest.fixture(scope="module")
def files():
    return assets()


def test_the_page_is_html_under_a_policy_that_lets_nothing_in(client):
    result = client.simulate_get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert result.status_code == 200
    assert result.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in result.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert {policy[name] for name in ("frame-ancestors", "base-uri", "form-action")} == {"'none'"}
    assert "unsafe" not in result.headers["content-security-policy"]
    assert result.headers["x-content-type-options"] == "nosniff"


def test_every_file_is_served_with_its_type_and_only_once(client, files):
    for name, asset in files.items():
        result = client.simulate_get(f"/static/{name}")
        assert result.content == asset.data
        assert result.headers["content-type"].startswith(MEDIA_TYPES[name.rpartition(".")[2]])
        again = client.simulate_get(f"/static/{name}", headers={"If-None-Match": result.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fpage.py", "%2Fetc%2Fpasswd", "..", "vendor"])
def test_nothing_else_is_served(client, name):
    assert client.simulate_get(f"/static/{name}").status_code == 404


def test_whatever_the_page_refers_to_is_there_and_of_this_server(files):
    html = files[INDEX].data.decode()
    referred = re.findall(r'(?:src|href)="([^"#][^"]*)"', html)
    assert len(referred) > 5
    assert {r for r in referred if not r.startswith("data:")} <= {f"static/{name}" for name in files}
    for name, asset in files.items():
        if name.endswith(".js") and (STATIC / name).is_file():
            imports = re.findall(r'^import .*?from "([^"]+)"', asset.data.decode(), re.MULTILINE)
            assert {i.removeprefix("./") for i in imports} <= set(files), name


def test_the_page_has_no_inline_script_or_style_and_makes_no_markup_of_text(files):
    html = files[INDEX].data.decode()
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", html)
    for name, asset in files.items():
        if (STATIC / name).is_file() and name.endswith(".js"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|style=", asset.data.decode()
            )


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        (r"\.json\(\)", {"loading.js"}),  # it imports nothing, and shows a reason only
        (r"JSON\.parse", {"exact.js", "api.js", "remembered.js"}),  # the last two read what the page stored
        (r"DateTimeFormat|toLocale|getHours", {"format.js"}),
    ],
)
def test_one_file_reads_json_and_one_writes_times(files, pattern, places):
    own = {name: asset.data.decode() for name, asset in files.items() if (STATIC / name).is_file()}
    assert {name for name, text in own.items() if re.search(pattern, text)} == places


def test_the_libraries_are_those_of_the_manifest_and_have_their_licences_beside_them():
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    there = {f.name for f in VENDOR.iterdir()}
    licences = {entry["license_file"] for entry in manifest.values()}
    assert there == {*manifest, *licences, "manifest.json"}
    for name, entry in manifest.items():
        digest = hashlib.sha384((VENDOR / name).read_bytes()).digest()
        assert base64.b64encode(digest).decode() == entry["sha384"], name
        assert entry["package"]
        assert entry["version"]
        text = (VENDOR / entry["license_file"]).read_text()
        assert {"MIT": "Permission is hereby granted", "Apache-2.0": "Apache License"}[entry["license"]] in text
