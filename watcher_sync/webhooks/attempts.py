# SPDX-License-Identifier: Apache-2.0
"""The result of one request: its status or the reason why there was none.

A detail is short and printable. It has no secret, no part of the URL and no address that a name resolved to, because
the owner of a subscription reads it.
"""

from __future__ import annotations

import email.utils
import http
import math
import socket
import ssl
from typing import Final

import aiohttp
import msgspec

from watcher_sync.escaping import escaped
from watcher_sync.webhooks.guard import AddressRefused

MAX_DETAIL_LENGTH: Final = 200
"""Characters of a detail."""

MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
"""The longest delay that a receiver may ask for."""

_MAX_RETRY_AFTER_DIGITS: Final = 9
_GONE: Final = 410
_STATUSES_WITH_RETRY_AFTER: Final = (429, 503)


class Attempt(msgspec.Struct, frozen=True):
    """One request and its result."""

    code: int
    """The status of the answer; 0 if there was none."""
    detail: str
    """A printable reason of at most 200 characters."""
    seconds: float
    """How long the attempt took."""
    retry_after: float | None = None
    """Seconds that the receiver asks to wait, from 0 to 24 hours; None if it does not ask."""
    ended: bool = True
    """Whether the answer was read to its end; False when it is long, slow or in too many parts."""
    not_sent: bool = False
    """Whether the request was held back, because the sender had lost the right to send it."""

    @property
    def ok(self) -> bool:
        """Whether the receiver accepted the request: a status of 200 to 299."""
        return 200 <= self.code <= 299

    @property
    def gone(self) -> bool:
        """Whether the receiver wants no more requests at all: the status 410."""
        return self.code == _GONE


def bounded(detail: str) -> str:
    """The text as a detail: printable, in one line, at most 200 characters."""
    return escaped(detail)[:MAX_DETAIL_LENGTH]


def status_detail(code: int) -> str:
    """The detail of an answer, with the standard phrase and not with the receiver's text."""
    try:
        text = f"HTTP {code} {http.HTTPStatus(code).phrase}"
    except ValueError:
        text = f"HTTP {code}"
    return f"{text}: redirects are not followed" if 300 <= code <= 399 else text


def retry_after_of(code: int, value: str | None, *, now: float) -> float | None:
    """Seconds of a Retry-After header, from 0 to 24 hours; None where the status or the header gives none.

    :param value: a number of seconds or an HTTP date (RFC 9110, section 10.2.3).
    :param now: seconds since 1970.
    """
    if value is None or code not in _STATUSES_WITH_RETRY_AFTER:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text) if len(text) <= _MAX_RETRY_AFTER_DIGITS else math.inf
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def failure_detail(error: Exception) -> str:
    """The reason of a request without an answer, as a detail."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return bounded(f"TLS: {_certificate_reason(error.certificate_error)}")
        case aiohttp.ClientConnectorSSLError():
            return bounded(f"TLS: {getattr(error.os_error, 'reason', None) or 'the handshake failed'}")
        case aiohttp.ClientConnectorDNSError():
            return "the name of the host was not found"
        case aiohttp.ClientConnectorError():
            return bounded(_connect_reason(error.os_error))
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "the receiver closed the connection without an answer"
        case aiohttp.ClientOSError():
            return bounded(f"the connection was lost: {error.strerror or 'no reason given'}")
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return "the answer is not valid HTTP, or its header is too large"
        case aiohttp.InvalidURL():
            return "the URL is not valid"
        case _:
            return bounded(f"the request failed: {type(error).__name__}")


def _certificate_reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return "the certificate is not accepted"


def _connect_reason(error: OSError) -> str:
    if isinstance(error, AddressRefused):
        return str(error)
    if isinstance(error, socket.gaierror):
        return "the name of the host was not found"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return "no address of the host could be connected to"
