# SPDX-License-Identifier: Apache-2.0
"""What an object's beginning tells of its metadata is what decoding it tells."""

from __future__ import annotations

import io
import itertools
import json
import socket
from typing import Any

import msgspec
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.extensions.kubernetes.source import watch_stream
from watcher_sync.extensions.kubernetes.source.watch_stream import WatchMetadata, batches, metadata_of

AS_WRITTEN = {
    "name": "web-7d9c5b6f4-x2x7z",
    "generateName": "web-7d9c5b6f4-",
    "namespace": "default",
    "uid": "0f0e0d0c-0000-4000-a000-000000000000",
    "resourceVersion": "4711",
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "ownerReferences": [{"kind": "ReplicaSet", "name": "other", "uid": "other", "resourceVersion": "1"}],
}


def text(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decoded(item: bytes) -> WatchMetadata:
    metadata = msgspec.json.decode(item)["metadata"]
    return WatchMetadata(metadata.get("uid", ""), metadata.get("name", ""), metadata.get("resourceVersion", ""))


def test_an_object_as_api_servers_write_it_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stream, "_decode_head", None)
    item = {"metadata": AS_WRITTEN, "spec": {"nodeName": "node"}}
    expected = WatchMetadata("0f0e0d0c-0000-4000-a000-000000000000", "web-7d9c5b6f4-x2x7z", "4711")
    assert metadata_of(text(item)) == expected
    assert metadata_of(text({"kind": "Pod", "apiVersion": "v1", **item})) == expected


NAMES = ("name", "generateName", "namespace", "uid", "resourceVersion")


@pytest.mark.slow
@pytest.mark.parametrize("names", list(itertools.permutations(NAMES)))
def test_the_order_of_the_fields_makes_no_difference(names: tuple[str, ...]) -> None:
    item = text({"metadata": {name: AS_WRITTEN[name] for name in names} | {"labels": {"uid": "wrong"}}})
    assert metadata_of(item) == decoded(item)


TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", '","uid":"x', "é", "\u2028", '\\","resourceVersion":"9'])


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*NAMES, "generation"]), TEXTS), st.booleans(), st.booleans())
def test_metadata_with_any_content_is_read_as_a_decoder_reads_it(
    metadata: dict[str, str], written: bool, spaced: bool
) -> None:
    ordered = {name: metadata[name] for name in NAMES if name in metadata} if written else metadata
    document = {"metadata": ordered, "status": {"metadata": {"uid": "wrong"}}}
    item = json.dumps(document).encode() if spaced else text(document)
    assert metadata_of(item) == decoded(item)


@pytest.mark.parametrize(
    "item",
    [b"{}", b"[]", b"null", b'{"metadata":null}', b'{"metadata":{"uid":1}}', b'{"metadata":{"name":"a","uid":null}}'],
)
def test_an_object_without_metadata_that_can_be_read_is_refused(item: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        metadata_of(item)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),  # complete, but for the newline
        (b'{"a":1}\n{"b":', [b'{"a":1}']),
        (b'{"a":1}', [b'{"a":1}']),
        (b'{"a":"\xc3', []),
        (b'\r\n{"a":1}\r\n\n \n', [b'{"a":1}\r']),
        (b"\n", []),
    ],
)
def test_a_body_is_cut_into_its_complete_lines(body: bytes, lines: list[bytes]) -> None:
    response = urllib3.HTTPResponse(io.BytesIO(body), preload_content=False)
    assert list(itertools.chain.from_iterable(batches(response))) == lines


def test_a_line_of_a_body_without_chunks_is_given_before_the_next_one_comes() -> None:
    ours, servers = socket.socketpair()
    with ours, servers, ours.makefile("rb") as body:
        ours.settimeout(1.0)  # wait: for bytes that do not come
        servers.sendall(b'{"a":1}\n')
        response = urllib3.HTTPResponse(body, preload_content=False)
        assert next(batches(response)) == [b'{"a":1}']
