# SPDX-License-Identifier: Apache-2.0
"""The compression and the character set of a message's body, as publishers of oslo.messaging declare them.

With ``kombu_compression`` the body is compressed, and the header ``compression`` names the method. kombu ignores the
property ``content_encoding`` of JSON. Therefore it matters here only where the body is no UTF-8.

A body is decompressed up to its limit only, so a small message cannot fill the memory. Pure functions.
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

from watcher_sync.wire.fields import BadEnvelope, show

_LZMA_BYTES: Final = 134_217_728
"""The highest preset of xz needs half of it."""

_PLAIN: Final = frozenset({None, "", "utf-8", "utf8", "us-ascii", "ascii", "ascii-8bit", "binary"})
"""Values of ``content_encoding`` that change nothing."""

_CHARSETS: Final = frozenset(
    {"utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be", "iso-8859-1", "iso-8859-15", "windows-1252"}
)


class _Brotli:
    """A decompressor of the library ``brotli``, with the methods of all others."""

    def __init__(self) -> None:
        self._library = importlib.import_module("brotli").Decompressor()

    def decompress(self, body: bytes, limit: int) -> bytes:
        """The beginning of the text: all of it, or at least so many bytes."""
        return bytes(self._library.process(body, output_buffer_limit=limit))

    @property
    def eof(self) -> bool:
        """Whether the whole text was returned."""
        return bool(self._library.is_finished())


def _zstd() -> Any:
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


_METHODS: Final[dict[str, Callable[[], Any]]] = {
    name: method
    for names, method in (
        # 32 has zlib accept the header of gzip, too.
        ("application/x-gzip gzip zlib deflate", lambda: zlib.decompressobj(zlib.MAX_WBITS | 32)),
        ("application/x-bz2 bzip2 bzip bz2", bz2.BZ2Decompressor),
        ("application/x-lzma lzma xz", lambda: lzma.LZMADecompressor(memlimit=_LZMA_BYTES)),
        ("application/zstd zstd zstandard", lambda: _zstd().ZstdDecompressor()),
        ("application/x-brotli brotli br", _Brotli),
    )
    for name in names.split()
}
"""Name of a method, as kombu or an operator writes it -> makes a decompressor."""


def decoded(body: bytes, compression: Any, encoding: Any, *, max_size: int) -> tuple[bytes, str]:
    """The body without its compression and in UTF-8, and why it has to remain as it is; empty: it does not.

    A body above the limit remains as it is, without a reason.

    :param compression: the header ``compression``; None where there is none.
    :param encoding: the property ``content_encoding``; None where there is none.
    :param max_size: bytes that the result may have.
    """
    if (not compression and encoding in _PLAIN) or len(body) > max_size:
        return body, ""
    try:
        plain = _decompressed(body, "compression", compression, max_size) if compression else body
        return _as_utf8(plain, encoding, max_size), ""
    except BadEnvelope as exc:
        return body, str(exc)


def _as_utf8(body: bytes, encoding: Any, max_size: int) -> bytes:
    name = str(encoding or "").lower()
    if name in _PLAIN or _is_utf8(body):
        return body
    if name in _METHODS:
        return _decompressed(body, "content_encoding", encoding, max_size)
    if name not in _CHARSETS:
        raise BadEnvelope(f"content_encoding {show(encoding)} is unknown")
    try:
        return body.decode(name).encode()
    except UnicodeError:
        raise BadEnvelope(f"the body is not in the content_encoding {show(encoding)}") from None


def _is_utf8(body: bytes) -> bool:
    """Whether it is UTF-8 as JSON has it, without a NUL."""
    try:
        body.decode()
    except UnicodeError:
        return False
    return b"\0" not in body


def _decompressed(body: bytes, what: str, name: Any, max_size: int) -> bytes:
    """:raises BadEnvelope: naming the method: it is unknown, or the body is not of it or is too large."""
    method = _METHODS.get(name.lower()) if isinstance(name, str) else None
    if method is None:
        raise BadEnvelope(f"{what} {show(name)} is unknown")
    try:
        decompressor = method()
        plain: bytes = decompressor.decompress(body, max_size + 1)
        is_whole = decompressor.eof
    except ImportError as exc:
        raise BadEnvelope(f"{what} {show(name)} needs the library {exc.name}, which is not installed") from None
    except Exception as exc:  # noqa: BLE001 - the errors of these libraries have no common base
        raise BadEnvelope(f"{what} {show(name)}: the body cannot be decompressed: {exc}") from None
    if len(plain) > max_size:
        raise BadEnvelope(f"{what} {show(name)}: more than the {max_size} bytes allowed after decompression")
    if not is_whole:
        raise BadEnvelope(f"{what} {show(name)}: the body ends early")
    return plain
