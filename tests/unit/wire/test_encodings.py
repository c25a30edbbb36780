# SPDX-License-Identifier: Apache-2.0
"""Compressed bodies, and bodies in another character set, become JSON within their limit."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, Final

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.wire.encodings import decoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT: Final = 10_000

METHODS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "application/x-gzip": zlib.compress,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "application/x-bz2": bz2.compress,
    "bzip2": bz2.compress,
    "application/x-lzma": lzma.compress,
    "xz": lzma.compress,
    "application/zstd": zstd.compress,
    "application/x-brotli": brotli.compress,
}

BODY: Final = '{"event_type": "instance.updäte"}'.encode()


@pytest.mark.parametrize("name", METHODS)
def test_a_body_is_decompressed_by_the_method_of_its_header_or_of_its_content_encoding(name: str) -> None:
    body = METHODS[name](BODY)
    assert decoded(body, name, "utf-8", max_size=LIMIT) == (BODY, "")
    assert decoded(body, name.upper(), name, max_size=LIMIT) == (BODY, "")
    assert decoded(body, None, name, max_size=LIMIT) == (BODY, "")


@pytest.mark.parametrize("name", METHODS)
def test_a_body_above_the_limit_is_refused_without_its_memory(name: str) -> None:
    whole = b" " * 30_000_000
    bomb = METHODS[name](whole)
    assert decoded(METHODS[name](whole[:LIMIT]), name, None, max_size=LIMIT) == (whole[:LIMIT], "")
    del whole
    tracemalloc.start()
    try:
        found = decoded(bomb, name, None, max_size=len(bomb))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reason = f'compression "{name}": more than the {len(bomb)} bytes allowed after decompression'
    assert found == (bomb, reason)
    assert most < 10_000_000


@pytest.mark.parametrize("name", METHODS)
def test_a_body_that_is_cut_or_not_of_its_method_is_refused_naming_the_method(name: str) -> None:
    body = METHODS[name](BODY)
    assert decoded(body[:-1], name, None, max_size=LIMIT) == (body[:-1], f'compression "{name}": the body ends early')
    text, reason = decoded(BODY, name, None, max_size=LIMIT)
    assert text == BODY
    assert reason.startswith(f'compression "{name}": the body')


@pytest.mark.parametrize(
    ("compression", "encoding", "reason"),
    [
        ("snappy", "utf-8", 'compression "snappy" is unknown'),
        (17, None, "compression 17 is unknown"),
        ({"a": 1}, None, "compression an object is unknown"),
        (None, "snappy", 'content_encoding "snappy" is unknown'),
        (None, "utf-16", 'the body is not in the content_encoding "utf-16"'),
    ],
)
def test_an_unknown_method_or_character_set_is_named(compression: Any, encoding: str | None, reason: str) -> None:
    assert decoded(b"\xff\xfe\x00", compression, encoding, max_size=LIMIT) == (b"\xff\xfe\x00", reason)


@pytest.mark.parametrize("name", ["utf-16", "UTF-16LE", "utf-32", "iso-8859-1", "windows-1252"])
def test_a_body_in_another_character_set_becomes_utf_8(name: str) -> None:
    assert decoded(BODY.decode().encode(name), None, name, max_size=LIMIT) == (BODY, "")


@pytest.mark.parametrize("name", [None, "", "utf-8", "UTF-8", "binary", "utf-16", "gzip", "snappy"])
def test_json_in_utf_8_remains_as_it_is_whatever_content_encoding_says(name: str | None) -> None:
    assert decoded(BODY, None, name, max_size=LIMIT) == (BODY, "")


def test_a_method_whose_library_is_not_installed_is_refused_naming_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    _, reason = decoded(brotli.compress(BODY), "brotli", None, max_size=LIMIT)
    assert reason == 'compression "brotli" needs the library brotli, which is not installed'


@given(
    st.binary(max_size=200),
    st.none() | st.sampled_from(sorted(METHODS)) | st.text(max_size=20) | st.integers() | st.binary(max_size=5),
    st.none() | st.sampled_from(["utf-16", "gzip", "binary"]) | st.text(max_size=20),
)
def test_any_body_with_any_properties_is_decoded_within_the_limit_or_remains(
    body: bytes, compression: Any, encoding: str | None
) -> None:
    text, reason = decoded(body, compression, encoding, max_size=1000)
    assert text == body if reason else len(text) <= 2000
