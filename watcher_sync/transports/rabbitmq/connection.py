# SPDX-License-Identifier: Apache-2.0
"""Connections to RabbitMQ and their channels, for one event loop. Each answer is awaited for a limited time.

The library's callbacks become coroutines. A channel or connection that ends says why: a call that waits raises that
reason. A connection that ends is discarded, and the caller makes a new one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pika
from pika import exceptions as pika_exceptions
from pika.adapters.asyncio_connection import AsyncioConnection

from watcher_sync.transports.addresses import addresses_of
from watcher_sync.transports.rabbitmq.broker import Broker, BrokerHost

CONNECT_TIMEOUT_SECONDS: Final = 3.0
_LOGIN_TIMEOUT_SECONDS: Final = 6.0
_ANSWER_TIMEOUT_SECONDS: Final = 10.0

_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 406


class NoAnswer(Exception):
    """The broker did not answer in time, so the connection is of no use any more."""


Failure: Final = (pika_exceptions.AMQPError, pika_exceptions.ChannelError, OSError, NoAnswer)
"""Whatever a connection or a channel fails with."""


class _Ending:
    """Why a connection or channel ended, for all who wait for an answer of it."""

    def __init__(self) -> None:
        self.reason: Exception | None = None
        self._waiting: set[asyncio.Future[Any]] = set()

    def set(self, reason: Exception) -> None:
        self.reason = self.reason or reason
        for future in self._waiting:
            if not future.done():
                future.set_exception(self.reason)

    async def unless_ended(self, future: asyncio.Future[Any], seconds: float) -> Any:
        """The result of the future.

        :raises Exception: the reason of the end.
        :raises NoAnswer: after so many seconds.
        """
        if self.reason is not None:
            raise self.reason
        self._waiting.add(future)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise NoAnswer("no answer from the broker in time") from None
        finally:
            self._waiting.discard(future)


class Channel:
    """One channel.

    :param library: the library's channel, whose methods are passed to :meth:`call` and :meth:`send`.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        self._ending = _Ending()
        library.add_on_close_callback(lambda _channel, reason: self._ending.set(reason))

    @property
    def why_closed(self) -> Exception | None:
        """Why it is closed; None while it is open."""
        return self._ending.reason

    async def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The broker's answer to one method of :attr:`library`.

        :raises Failure: the channel or the connection ended, or there was no answer.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._ending.reason is None:
            method(*arguments, callback=_setter(answer), **options)
        return await self._ending.unless_ended(answer, _ANSWER_TIMEOUT_SECONDS)

    async def close(self) -> None:
        """Close it: the broker takes back what is not acknowledged.

        :raises Failure: the connection ended, or there was no answer.
        """
        if self.library.is_open:
            self.library.close()
        closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with suppress(pika_exceptions.ChannelClosed, pika_exceptions.ChannelWrongStateError):
            await self._ending.unless_ended(closed, _ANSWER_TIMEOUT_SECONDS)


class BrokerConnection:
    """One connection to one host; made by :func:`connect`."""

    def __init__(self, host: BrokerHost) -> None:
        self.host = host
        self.blocked: str | None = None
        """Why the broker blocks publishers on this connection; None while it does not."""
        self.ending = _Ending()
        self.library: Any = None

    @property
    def why_closed(self) -> Exception | None:
        """Why it ended; None while it is usable."""
        return self.ending.reason

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self.ending.reason is not None

    async def open_channel(self) -> Channel:
        """A new channel. :raises Failure: the connection ended, or there was no answer."""
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.ending.reason is None:
            self.library.channel(on_open_callback=_setter(opened))
        return Channel(await self.ending.unless_ended(opened, _ANSWER_TIMEOUT_SECONDS))

    async def close(self, timeout: float = 2.0) -> None:
        """Close it with its channels: the broker takes back what is not acknowledged.

        :param timeout: seconds to wait for the broker's answer.
        """
        closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with suppress(*Failure):
            if self.library.is_open:
                self.library.close()
            await self.ending.unless_ended(closed, timeout)

    def on_blocked(self, _connection: Any, frame: Any) -> None:
        """The library's callback."""
        self.blocked = str(frame.method.reason)

    def on_unblocked(self, _connection: Any, _frame: Any) -> None:
        """The library's callback."""
        self.blocked = None


async def connect(broker: Broker, host: BrokerHost, name: str) -> BrokerConnection:
    """Connect and log in, at the first address of the host that answers.

    :param name: that the broker shows for the connection.
    :raises Failure: no address accepts us; the failure is that of the last one.
    """
    failure: Exception | None = None
    for address in await addresses_of(host.name, host.port):
        try:
            return await _connect_to(address, broker, host, name)
        except Failure as exc:
            failure = exc
    assert failure is not None
    raise failure


async def _connect_to(address: str, broker: Broker, host: BrokerHost, name: str) -> BrokerConnection:
    """:raises Failure: the address does not accept us, or does not answer."""
    _silence_library()
    made = BrokerConnection(host)
    opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def on_open_error(_connection: Any, error: Any) -> None:
        made.ending.set(_cause_of(error))

    def on_callback_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # The library makes its socket in a callback. The loop alone gets its error, such as "Too many open files".
        error = context.get("exception")
        if isinstance(error, OSError):
            made.ending.set(error)
        else:
            loop.default_exception_handler(context)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_callback_error)
    try:
        made.library = AsyncioConnection(
            _parameters(address, broker, host, name),
            on_open_callback=_setter(opened),
            on_open_error_callback=on_open_error,
            on_close_callback=lambda _connection, reason: made.ending.set(reason),
            custom_ioloop=loop,
        )
        made.library.add_on_connection_blocked_callback(made.on_blocked)
        made.library.add_on_connection_unblocked_callback(made.on_unblocked)
        await made.ending.unless_ended(opened, CONNECT_TIMEOUT_SECONDS + _LOGIN_TIMEOUT_SECONDS)
    except BaseException:
        if made.library is not None:
            with suppress(*Failure):
                made.library.close()
        raise
    finally:
        loop.set_exception_handler(None)
    return made


def _setter(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    """A callback that sets the result, unless the wait is over."""

    def set_result(result: Any) -> None:
        if not future.done():
            future.set_result(result)

    return set_result


def is_missing(error: Exception | None) -> bool:
    """Whether the broker says that a queue or an exchange does not exist."""
    return isinstance(error, pika_exceptions.ChannelClosedByBroker) and error.reply_code == _NOT_FOUND


def is_mismatch(error: Exception | None) -> bool:
    """Whether the broker says that a queue or an exchange exists with other properties."""
    # The code alone is not enough: the limits of a virtual host have it, too.
    return (
        isinstance(error, pika_exceptions.ChannelClosedByBroker)
        and error.reply_code == _PRECONDITION_FAILED
        and "inequivalent arg" in error.reply_text
    )


def describe(error: BaseException, broker: Broker) -> str:
    """An error in one line, without the passwords of the URL."""
    if isinstance(error, (pika_exceptions.ConnectionClosed, pika_exceptions.ChannelClosed)):
        text = f"{error.reply_code} {error.reply_text}"
    elif isinstance(error, pika_exceptions.ProbableAuthenticationError):
        text = f"authentication failed: {error.args[0]}"
    elif isinstance(error, pika_exceptions.ProbableAccessDeniedError):
        text = f"the virtual host {broker.virtual_host!r} is refused: {error.args[0]}"
    elif isinstance(error, pika_exceptions.AMQPHeartbeatTimeout):
        text = "no heartbeat from the broker in time"
    else:
        text = str(error) or type(error).__name__
    return " ".join(broker.without_secrets(text).split())[:300]


def _cause_of(error: Any) -> Exception:
    """The exception below those in which the library wraps a failed attempt to connect.

    Some of its own, such as that of a silent TLS handshake, have no base that is public. They become one that has.
    """
    while True:
        inner = getattr(error, "exceptions", None) or getattr(error, "exception", None) or getattr(error, "args", None)
        if isinstance(inner, (list, tuple)):
            inner = inner[-1] if inner else None
        if not isinstance(inner, Exception):
            return error if isinstance(error, Failure) else pika_exceptions.AMQPConnectionError(str(error))
        error = inner


def _silence_library() -> None:
    """Have the library log nothing, unless its level is configured: the source logs each change of its state."""
    logger = logging.getLogger("pika")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)


def _parameters(address: str, broker: Broker, host: BrokerHost, name: str) -> pika.ConnectionParameters:
    external = broker.options["rabbit_login_method"] == "EXTERNAL"
    context = _ssl_context(broker)
    return pika.ConnectionParameters(
        host=address,
        port=host.port,
        virtual_host=broker.virtual_host,
        credentials=pika.credentials.ExternalCredentials()
        if external
        else pika.PlainCredentials(host.user, host.password),
        heartbeat=broker.options["heartbeat_timeout_threshold"],
        connection_attempts=1,
        socket_timeout=CONNECT_TIMEOUT_SECONDS,
        stack_timeout=_LOGIN_TIMEOUT_SECONDS,
        ssl_options=None if context is None else pika.SSLOptions(context, host.name),
        client_properties={"connection_name": name, "product": "watcher-sync"},
    )


def _ssl_context(broker: Broker) -> ssl.SSLContext | None:
    """As oslo.messaging has it: without ``ssl_ca_file`` the certificate is not verified."""
    options = broker.options
    if not options["ssl"]:
        return None
    if options["ssl_ca_file"]:
        context = ssl.create_default_context(cafile=options["ssl_ca_file"])
        context.check_hostname = bool(options["ssl_enforce_hostname_verification"])
    else:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options["ssl_cert_file"]:
        context.load_cert_chain(options["ssl_cert_file"], options["ssl_key_file"] or None)
    return context
