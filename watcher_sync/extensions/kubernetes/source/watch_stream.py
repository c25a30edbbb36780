# SPDX-License-Identifier: Apache-2.0
"""Splits the stream of a watch into lines, and decodes as much of each line as the reflector needs.

A line is decoded once; its object remains JSON text. A line that the end of the connection cuts off is not an event:
the next watch delivers it again. The functions have no state; one stream belongs to one thread.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
import urllib3

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source.connection import TooLarge, TransportError, transport_errors

_CHUNK_BYTES: Final = 1 << 16
_MAX_LINE_BYTES: Final = 32 << 20
"""Objects of Kubernetes have 3 MiB at most; those of other API servers may have more."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class WatchMetadata(msgspec.Struct, gc=False):
    """Identifies one version of one object."""

    uid: str = ""
    name: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class Head(msgspec.Struct, gc=False):
    """The part of an object that the reflector decodes."""

    metadata: WatchMetadata


class Line(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: str
    object: msgspec.Raw


class _Annotated(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct):
    """The server has sent everything up to the version of the bookmark."""

    metadata: _Annotated

    @property
    def ends_initial_events(self) -> bool:
        """Whether the server has sent all objects that existed when the watch began."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


_TEXT: Final = rb'"([ !#-\[\]-~]*)"'
_ANY: Final = rb'"[ !#-\[\]-~]*"'
_BEGINNING: Final = re.compile(
    rb'\{(?:"kind":%(any)s,"apiVersion":%(any)s,)?"metadata":\{"name":%(text)s,(?:"generateName":%(any)s,)?'
    rb'(?:"namespace":%(any)s,)?"uid":%(text)s,"resourceVersion":%(text)s,' % {b"any": _ANY, b"text": _TEXT}
)
"""The beginning of an object as API servers write it: fields are in the order of their declaration."""

decode_line = msgspec.json.Decoder(Line).decode
_decode_head = msgspec.json.Decoder(Head).decode
_decode_any = msgspec.json.Decoder(msgspec.Raw).decode
decode_bookmark = msgspec.json.Decoder(Bookmark).decode


def metadata_of(item: bytes) -> WatchMetadata:
    """Read the metadata of an object.

    If the object begins as API servers write it, a regular expression reads only that beginning.
    A scan to the end costs as much as a decode. Any other object is decoded.

    :param item: a valid JSON object.
    :raises msgspec.DecodeError: the metadata is missing or malformed.
    """
    match = _BEGINNING.match(item)
    if match is None:
        return _decode_head(item).metadata
    name, uid, version = match.groups()
    return WatchMetadata(uid.decode(), name.decode(), version.decode())


def batches(response: urllib3.BaseHTTPResponse) -> Iterator[list[bytes]]:
    """Give the lines in lists as they arrive, until the server ends the stream.

    The last line of a complete body may have no newline.

    :raises TransportError: the connection ended, the read timed out (TimedOut), or an event is too large (TooLarge).
    """
    rest: list[bytes] = []
    size = 0
    chunks = _chunks(response)
    while True:
        with transport_errors():
            chunk = next(chunks, b"")
        head, newline, tail = chunk.rpartition(b"\n")
        if chunk and not newline:
            rest.append(chunk)
            size += len(chunk)
            if size > _MAX_LINE_BYTES:
                raise TooLarge(f"an event has more than {_MAX_LINE_BYTES} bytes")
            continue
        rest.append(head)
        lines = [line for line in b"".join(rest).split(b"\n") if line and not line.isspace()]
        rest, size = [tail], len(tail)
        if lines and (chunk or _is_complete(lines[0])):
            yield lines
        if not chunk:
            return


def _chunks(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Give what has arrived, without waiting for more. A gateway may send the body without chunks."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    is_gzip = encoding in ("gzip", "x-gzip")
    if response.chunked:
        found = response.stream(_CHUNK_BYTES, decode_content=not is_gzip)
    else:
        found = iter(functools.partial(response.read1, _CHUNK_BYTES, decode_content=not is_gzip), b"")
    return _gunzip(found) if is_gzip else found


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress each chunk as far as it goes. API servers make a member of gzip of each event.

    The HTTP library would discard all that follows a damaged member, without an error: a watch that is silent.

    :raises TransportError: the bytes are no gzip.
    """
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for chunk in chunks:
        while chunk:
            try:
                text = member.decompress(chunk, _CHUNK_BYTES)
            except zlib.error as exc:
                raise TransportError(f"the gzip of a watch is damaged: {exc}") from exc
            if text:
                yield text
            chunk = member.unconsumed_tail or member.unused_data
            if member.eof:
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)


def _is_complete(line: bytes) -> bool:
    """Whether a line without a newline is not cut off."""
    try:
        _decode_any(line)
    except UNDECODABLE:
        return False
    return True
