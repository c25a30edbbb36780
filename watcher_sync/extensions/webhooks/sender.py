# SPDX-License-Identifier: Apache-2.0
"""Sends one request to one URL and reports the result.

Guaranteed: a post never raises, never follows a redirect, and ends within its total timeout. The address that is
connected to is permitted. At most a bounded part of the answer is read. The status line decides, whatever follows it
(:mod:`watcher_sync.extensions.webhooks.answers`).

Not guaranteed: that a request without an answer was not received.

The detail of a result is short and printable. It has no secret, no part of the URL and no address that a name resolved
to, because the owner of a subscription reads it.

Runs in the event loop that opened the sender.
"""

from __future__ import annotations

import asyncio
import email.utils
import functools
import http
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict
from oslo_log import log as logging
from yarl import URL

from watcher_sync.extensions.webhooks.answers import Answer, AnswerConnector, current_answer
from watcher_sync.extensions.webhooks.deliveries import Attempt, DeliverySettings, bounded
from watcher_sync.extensions.webhooks.guard import AddressRefused, GuardedSockets, ThreadedNames
from watcher_sync.extensions.webhooks.options import parsed_networks
from watcher_sync.wire.callback_urls import BadCallback, Network, check_callback

LOG = logging.getLogger(__name__)

USER_AGENT: Final = "watcher-sync"

MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
"""The longest delay that a receiver may ask for."""

_MAX_RETRY_AFTER_DIGITS: Final = 9
_STATUSES_WITH_RETRY_AFTER: Final = (429, 503)

_NOT_SENT: Final = "not sent: the lease is lost"
_NO_ANSWER: Final = "the answer is not valid HTTP, or its status line does not come"

_KEEPALIVE_SECONDS: Final = 4.0
"""How long an idle connection stays open: less than the 5 seconds after which many servers close theirs."""

_REST_SECONDS: Final = 2.0
"""How long an answer may take after its status line before its connection is closed."""

_READ_BYTES: Final = 512
"""Bytes of a body after twice of which the client stops parsing what it received, until they are taken."""


class _LeaseLost(Exception):
    """The right to send was lost while the connection was made."""


class _Exchange:
    """One request under way: what is known of it when it fails."""

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self.may_send = may_send
        self.held_back = False

    def check(self) -> None:
        """:raises _LeaseLost: when the request may not be sent."""
        if not self.may_send():
            self.held_back = True
            raise _LeaseLost

    async def checked(self, body: bytes) -> AsyncIterator[bytes]:
        """The body, once it may be sent."""
        self.check()
        yield body


class _Pool:
    """Connections that were made under one value of the allowed networks."""

    def __init__(self, session: aiohttp.ClientSession, networks: tuple[Network, ...]) -> None:
        self.session = session
        self.networks = networks
        self.users = 0


class Sender:
    """Sends requests to callback URLs, with a pool of connections; an asynchronous context manager.

    When the allowed networks change, no pooled connection is used again.

    :param max_response_bytes: how much of an answer is read before the connection is closed.
    :param ssl_context: with the authorities that are trusted; None for those of the system.
    :param resolver: resolves names; None for the operating system's look-up. The sender does not close it.
    :param monotonic: a clock in seconds that only goes forward.
    :param wall: seconds since 1970.
    """

    def __init__(
        self,
        settings: DeliverySettings,
        *,
        max_response_bytes: int = 16_384,
        ssl_context: ssl.SSLContext | None = None,
        resolver: AbstractResolver | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._max_response_bytes = max_response_bytes
        self._ssl_context = ssl_context
        self._resolver = resolver
        self._monotonic = monotonic
        self._wall = wall
        self._sockets = GuardedSockets(self._allowed)
        self._names: ThreadedNames | None = None
        self._pool: _Pool | None = None
        self._retired: list[_Pool] = []

    async def __aenter__(self) -> Self:
        if self._resolver is None:
            self._names = ThreadedNames()
        self._pool = self._new_pool()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pools = [*self._retired, *([self._pool] if self._pool else [])]
        self._pool, self._retired = None, []
        for pool in pools:
            await pool.session.close()
        if self._names is not None:
            await self._names.close()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        may_send: Callable[[], bool] = lambda: True,
    ) -> Attempt:
        """Posts the body and reports the result. Raises nothing but CancelledError.

        :param headers: of the request. User-Agent, Accept-Encoding and Content-Length are the sender's own.
        :param may_send: is asked before the connection is made, and again immediately before the request is written.
            If it says no, the connection is closed and the attempt is ``not_sent``.
        """
        exchange = _Exchange(may_send)
        started = self._monotonic()
        detail = ""
        limit = asyncio.timeout(self._settings.total_timeout)
        answer = Answer(self._max_response_bytes, functools.partial(_limit_rest, limit))
        current_answer.set(answer)
        try:
            check_callback(url, allow_http=self._settings.allow_http, allowed=self._allowed())
            exchange.check()
            async with limit:
                await self._request(exchange, answer, url, headers, body)
        except BadCallback as error:
            detail = bounded(f"the URL is refused: {error}")
        except TimeoutError:
            answer.ended = False
            detail = f"timed out after {self._settings.total_timeout:g} seconds"
        except Exception as error:  # noqa: BLE001 - each failure is an attempt, and its detail is stored
            detail = failure_detail(error) if answer.ended else _NO_ANSWER
            if not isinstance(error, (aiohttp.ClientError, OSError, _LeaseLost)):
                # The text of an unknown error may have the URL, and a URL may have a secret.
                LOG.error("a request of a webhook failed unexpectedly: %s", type(error).__name__)
        seconds = max(self._monotonic() - started, 0.0)
        if exchange.held_back:
            return Attempt(code=0, detail=_NOT_SENT, seconds=seconds, not_sent=True)
        if answer.code:
            retry_after = retry_after_of(answer.code, answer.header(b"retry-after"), now=self._wall())
            return Attempt(answer.code, status_detail(answer.code), seconds, retry_after, ended=answer.ended)
        return Attempt(0, detail, seconds)

    async def _request(
        self, exchange: _Exchange, answer: Answer, url: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Sends the request, and has the answer read to its end, so that the connection can be used again.

        What is raised after the status line does not change the result.
        """
        pool = self._current_pool()
        pool.users += 1
        try:
            async with pool.session.post(
                URL(url, encoded=True),
                headers=_request_headers(headers, body),
                data=exchange.checked(body),
                allow_redirects=False,
            ) as response:
                if response.content.at_eof() and _declares_body(response.headers):
                    answer.close_connection()  # the client expects no body after this status
                async for _ in response.content.iter_any():
                    pass
        finally:
            pool.users -= 1
            await self._close_retired()

    def _allowed(self) -> list[Network]:
        return parsed_networks(self._settings.allowed_networks)

    def _current_pool(self) -> _Pool:
        """The pool for the networks that are allowed now."""
        if self._pool is None:
            raise RuntimeError("the sender is not open")
        if self._pool.networks != tuple(self._allowed()):
            self._retired.append(self._pool)
            self._pool = self._new_pool()
        return self._pool

    async def _close_retired(self) -> None:
        unused = [pool for pool in self._retired if not pool.users]
        self._retired = [pool for pool in self._retired if pool.users]
        for pool in unused:
            await pool.session.close()

    def _new_pool(self) -> _Pool:
        connector = AnswerConnector(
            limit=self._settings.max_connections,
            limit_per_host=self._settings.connections_per_host,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            # Look-ups of one name at the same time are one, and each answer is used once.
            ttl_dns_cache=0,
            resolver=self._resolver or self._names,
            ssl=self._ssl_context or True,
            socket_factory=self._sockets,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            # The sender's own timeout covers everything, to the fraction of a second.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            read_bufsize=_READ_BYTES,
            max_line_size=self._max_response_bytes,
            max_field_size=self._max_response_bytes,
        )
        return _Pool(session, tuple(self._allowed()))


def _limit_rest(limit: asyncio.Timeout) -> None:
    """Has an attempt whose status is known end soon."""
    when = limit.when()
    if when is not None and not limit.expired():
        limit.reschedule(min(when, asyncio.get_running_loop().time() + _REST_SECONDS))


def _declares_body(headers: Mapping[str, str]) -> bool:
    return headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers


def _request_headers(headers: Mapping[str, str], body: bytes) -> CIMultiDict[str]:
    result = CIMultiDict(headers)
    result["User-Agent"] = USER_AGENT
    result["Accept-Encoding"] = "identity"
    result["Content-Length"] = str(len(body))
    return result


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
            return _NO_ANSWER
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
