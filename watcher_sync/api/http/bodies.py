# SPDX-License-Identifier: Apache-2.0
"""The body of a request: its declaration, and its reading within the limits."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

import falcon
import jsonschema
import msgspec

from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.request_input import TERMINATED, BodyUnreadable
from watcher_sync.api.http.schemas import Schema
from watcher_sync.api.http.validation import require_valid
from watcher_sync.wire import json as wire_json


class Body(msgspec.Struct, frozen=True):
    """The declaration of a request's body.

    :ivar schemas: media type -> schema.
    :ivar raw: media types that the method itself decodes, because a schema cannot describe them. The description of
        the operation explains them. In a pattern ``*`` matches any characters.
    :ivar untyped: whether the method itself decodes a body without a declared media type, too.
    :ivar default: the media type of a body that declares none; empty: such a body is refused, or left to the method.
    :ivar not_json: the status of the answer to a body that is not JSON. An empty body is 400 in any case.
    :ivar prepare: converts a decoded document to the form that its schema describes.
    :ivar max_bytes: the size of a body, if it is smaller than the limit of all bodies.
    """

    schemas: Mapping[str, Schema]
    required: bool = True
    raw: tuple[str, ...] = ()
    untyped: bool = False
    default: str = ""
    not_json: int = 400
    prepare: Callable[[Any], Any] | None = None
    max_bytes: int | None = None

    @property
    def media_types(self) -> tuple[str, ...]:
        """All media types that the operation accepts."""
        return (*self.schemas, *self.raw)

    def takes(self, media: str) -> bool:
        """Whether the operation accepts a media type, which is in lower case; empty: of no declared type."""
        if not media:
            return self.untyped
        return media in self.schemas or any(fnmatch.fnmatchcase(media, pattern) for pattern in self.raw)


def read_bytes(request: falcon.Request, max_bytes: int | None = None) -> bytes:
    """Reads the body without decoding it.

    :param max_bytes: a limit below that of all bodies.
    :raises Problem: 413 when it is too large, 400 when it is malformed or ends before its declared length.
    """
    limit: int = request.context.max_body_bytes
    limit = limit if max_bytes is None else min(limit, max_bytes)
    too_large = Problem(413, f"A body may have {limit} bytes")
    if (request.content_length or 0) > limit:
        raise too_large
    stream = request.bounded_stream if request.content_length is not None else request.stream
    if request.content_length is None:
        if request.get_header("Transfer-Encoding") is None:
            return b""
        if not request.env.get(TERMINATED):
            raise Problem(400, "This server needs a Content-Length, and no Transfer-Encoding")
    try:
        body: bytes = stream.read(limit + 1)
    except BodyUnreadable as exc:
        raise Problem(400, f"The body cannot be read: {exc}") from None
    if len(body) > limit:
        raise too_large
    if len(body) < (request.content_length or 0):
        raise Problem(400, "The body ends before its declared length")
    return body


def read_body(
    request: falcon.Request, declared: Body, validators: Mapping[str, jsonschema.Draft202012Validator]
) -> Any:
    """Reads, decodes and validates the body: the document, or for a raw media type its bytes.

    :param validators: media type -> validator of its schema.
    :raises Problem: 400, 413 or 415 when it is not as declared.
    """
    data = read_bytes(request, declared.max_bytes)
    if not data and not declared.required:
        return None
    media = (request.content_type or "").partition(";")[0].strip().lower() or declared.default
    if not data and declared.default:
        raise bad_request("body", "", "The body is empty")
    if not declared.takes(media):
        raise Problem(
            415,
            f"The body can be {', '.join(declared.media_types)}, not {media or 'of no declared type'}",
            headers={"Accept": ", ".join(declared.media_types)},
        )
    if media not in validators:
        return data
    try:
        document = wire_json.decode(data)
    except wire_json.BadJson as exc:
        raise bad_request("body", "", f"The body is not JSON: {exc}", declared.not_json) from None
    if declared.prepare is not None:
        document = declared.prepare(document)
    require_valid(document, validators[media], "body", "The body")
    return document
