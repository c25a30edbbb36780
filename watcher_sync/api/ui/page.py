# SPDX-License-Identifier: Apache-2.0
"""``/``: the page, or the versions of the API for a client that asks for JSON; and the static files.

The page needs no token. Its script requests all data from the API, with a token if the API needs one. There is no
build step, and the page loads nothing from other servers.

The Content-Security-Policy allows scripts, styles and connections of this server only. Trusted Types prevent
that a text, such as the name of an instance, becomes markup.

``static/vendor`` contains libraries of other projects, unmodified, with their licences. ``manifest.json`` lists the
origin and the SHA-384 of each, and a test compares them.

A browser requests a file each time, and gets 304 while it is unchanged.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable

import falcon
import msgspec

from watcher_sync.api.http import etags, schemas
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.api.http.versions import LIST, Versions

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The Content-Security-Policy of the page."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

INDEX = "index.html"

MEDIA_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "json": "application/json",
    "txt": "text/plain",
}

_RULE = Rule("page:show", EVERYBODY, reason="it is a file of the package, and asks for the token itself")


class Asset(msgspec.Struct, frozen=True):
    """One file of the page."""

    media_type: str
    data: bytes
    etag: str


def assets() -> dict[str, Asset]:
    """Reads all files, including those of ``vendor``: name -> file.

    :raises ValueError: when two files have the same name.
    """
    found: dict[str, Asset] = {}
    for file in _files(importlib.resources.files("watcher_sync.api.ui") / "static"):
        if file.name in found:
            raise ValueError(f"two files of the page have the name {file.name}")
        data = file.read_bytes()
        media_type = f"{MEDIA_TYPES[file.name.rpartition('.')[2]]}; charset=utf-8"
        found[file.name] = Asset(media_type, data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found


def _files(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry)
        else:
            yield entry


class Root:
    """``/``: the page for browsers, and the versions of the API for keystoneauth."""

    def __init__(self, files: dict[str, Asset], versions: Versions) -> None:
        self._index = files[INDEX]
        self._versions = versions

    @operation(
        summary="Show the page for people, or list the versions of the API as JSON",
        rule=_RULE,
        headers={"If-None-Match": schemas.ETAG},
        responses={
            200: Answer(LIST, "The page, or the versions", headers=("ETag",), media_types=(MEDIA_TYPES["html"], JSON)),
            304: Answer(None, "The ETag is unchanged", headers=("ETag",)),
            308: Answer(None, "The page has this address with a slash at the end", headers=("Location",)),
        },
        tag="page",
    )
    def on_get(self, call: Call) -> None:
        """Answers with the page, unless the request prefers JSON."""
        if call.request.client_prefers((MEDIA_TYPES["html"], JSON)) == JSON:
            self._versions.answer(call)
        elif not call.request.env["PATH_INFO"]:
            # The addresses of the page's files are relative to the path below which the API is served.
            raise falcon.HTTPPermanentRedirect(f"{call.link('/')}/")
        else:
            _send(call, self._index)


class Static:
    """``/static/{name}``: the files of the page."""

    def __init__(self, files: dict[str, Asset]) -> None:
        self._files = files

    @operation(
        summary="Show a file of the page",
        rule=_RULE,
        headers={"If-None-Match": schemas.ETAG},
        responses={
            200: Answer(
                schemas.STRING, "The file", headers=("ETag",), media_types=tuple(dict.fromkeys(MEDIA_TYPES.values()))
            ),
            304: Answer(None, "The ETag is unchanged", headers=("ETag",)),
        },
        errors=(404,),
        tag="page",
    )
    def on_get(self, call: Call, name: str) -> None:
        """Answers with the file of this name."""
        if name not in self._files:
            raise not_found(f"file {name}")
        _send(call, self._files[name])


def _send(call: Call, asset: Asset) -> None:
    call.response.set_headers(HEADERS)
    if not etags.answered_not_modified(call, asset.etag):
        call.response.content_type = asset.media_type
        call.response.data = asset.data
