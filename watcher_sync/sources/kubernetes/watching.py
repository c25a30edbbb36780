# SPDX-License-Identifier: Apache-2.0
"""A watch's stream, cut into lines, and what a line says.

A line is decoded once, and only as far as the reflector needs it; the object stays the JSON text that it was.
A line that was cut off by the end of the connection is not an event: the next watch brings it again.
Belongs to one reflector's thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import urllib3

from watcher_sync.sources.kubernetes.connection import Broken, reading

_BLOCK: Final = 1 << 16
_LONGEST: Final = 32 << 20
"""Bytes; an object of Kubernetes has 1.5 MiB at most."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Metadata(msgspec.Struct, gc=False):
    """What tells one version of one object from all others."""

    uid: str = ""
    name: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class Head(msgspec.Struct, gc=False):
    """As much of an object as the reflector needs."""

    metadata: Metadata


class Line(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: str
    object: msgspec.Raw


class _Annotated(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct):
    """Everything up to its version has been sent."""

    metadata: _Annotated

    @property
    def ends_initial_events(self) -> bool:
        """Whether everything that existed at the beginning has been sent."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


_TEXT: Final = rb'"([ !#-\[\]-~]*)"'
_ANY: Final = rb'"[ !#-\[\]-~]*"'
_BEGINNING: Final = re.compile(
    rb'\{(?:"kind":%(any)s,"apiVersion":%(any)s,)?"metadata":\{"name":%(text)s,(?:"generateName":%(any)s,)?'
    rb'(?:"namespace":%(any)s,)?"uid":%(text)s,"resourceVersion":%(text)s,' % {b"any": _ANY, b"text": _TEXT}
)
"""How an object begins as API servers write it: its fields have an order, which is that of their declaration."""

decode_line = msgspec.json.Decoder(Line).decode
_decode_head = msgspec.json.Decoder(Head).decode
decode_bookmark = msgspec.json.Decoder(Bookmark).decode


def metadata_of(item: bytes) -> Metadata:
    """What tells the version of an object from all others.

    An object that begins as API servers write it is read as far as that, since reading on, to its end, costs as much
    as decoding it. Any other is decoded.

    :param item: an object that is known to be JSON.
    :raises msgspec.DecodeError: it has no metadata, or none that can be read.
    """
    begins = _BEGINNING.match(item)
    if begins is None:
        return _decode_head(item).metadata
    name, uid, version = begins.groups()
    return Metadata(uid.decode(), name.decode(), version.decode())


def lines(response: urllib3.BaseHTTPResponse) -> Iterator[list[bytes]]:
    """The lines as they come, those that come together in one list, until the server ends the stream.

    :raises Broken: when the connection ends, or nothing comes in time (TimedOut).
    """
    rest: list[bytes] = []
    size = 0
    chunks = response.stream(_BLOCK, decode_content=True)
    while True:
        with reading():
            chunk = next(chunks, None)
        if chunk is None:
            return
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest.append(chunk)
            size += len(chunk)
            if size > _LONGEST:
                raise Broken(f"an event of more than {_LONGEST} bytes")
            continue
        rest.append(head)
        whole = b"".join(rest).split(b"\n")
        rest, size = [tail], len(tail)
        yield [line for line in whole if line]
