# SPDX-License-Identifier: Apache-2.0
"""Serves the method ``subscribe``: the requests of a stream, its token, its pings and its events.

Each stream has three tasks. One waits for the end of the stream, one reads requests, one writes events. So a client
that does not read still gets its stream ended, and a client that reads slowly still has its answers to pings read.

The end of a stream is always a :class:`~watcher_sync.extensions.watch.endings.StreamEnding`. For the thread of the
event loop; the database and tokens are asked in threads.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Executor
from typing import Any, Final, Protocol

import grpc
import msgspec
from grpc import aio
from oslo_log import log as logging

from watcher_sync.exceptions import StorageError
from watcher_sync.extensions.watch import conversation, endings
from watcher_sync.extensions.watch.authentication import (
    AuthenticationUnavailable,
    Authenticator,
    Caller,
)
from watcher_sync.extensions.watch.bearer_tokens import InvalidToken
from watcher_sync.extensions.watch.catch_up import CatchUp
from watcher_sync.extensions.watch.conversation import Conversation, Subscribe
from watcher_sync.extensions.watch.endings import StreamEnding
from watcher_sync.extensions.watch.hub import Hub, WatchStats
from watcher_sync.extensions.watch.limits import StreamLimits, Turns, address_of
from watcher_sync.extensions.watch.model.topics import WatchTopic
from watcher_sync.extensions.watch.rendering import RunInThread
from watcher_sync.extensions.watch.settings import WatchSettings
from watcher_sync.extensions.watch.stream import WatchStream
from watcher_sync.extensions.watch.topic_rows import SeveralTopics
from watcher_sync.extensions.watch.wire import events_pb2, messages

LOG = logging.getLogger(__name__)

SERVICE: Final = "central.events.v1.watch"
METHOD: Final = "subscribe"

_AUTHORIZATION: Final = "authorization"
_MAX_CHECKS_PER_ADDRESS: Final = 4
"""Tokens of first requests that are checked at once; more wait."""

Context = aio.ServicerContext[bytes, bytes]


class Topics(Protocol):
    """The stored topics. Used by a pool of threads."""

    def find(self, self_link: str, caller: Caller) -> WatchTopic | None:
        """The topic that a caller means by this path; None: it may watch none.

        :raises SeveralTopics: the caller may watch several of this name, and none is of its project.
        :raises StorageError: the database cannot answer.
        """

    def last_served(self, topic: WatchTopic, caller: Caller) -> int | None:
        """The last sequence that the REST catch-up served to the caller lately; None: it served none.

        :raises StorageError: the database cannot answer.
        """


class WatchParts(msgspec.Struct, frozen=True, eq=False):
    """What the service works with."""

    authenticator: Authenticator
    topics: Topics
    hub: Hub
    catch_up: CatchUp
    limits: StreamLimits
    settings: WatchSettings
    stats: WatchStats
    run: RunInThread
    token_threads: Executor
    """Check the tokens of first requests: an outage of the identity service must not delay the database."""
    refresh_threads: Executor
    """Check the tokens of streams: bad tokens of first requests must not delay them."""
    now: Callable[[], float] = time.time
    """Seconds since the epoch."""
    random: Callable[[], float] = random.random


class WatchService:
    """All streams of the process."""

    def __init__(self, parts: WatchParts) -> None:
        self._parts = parts
        self._first_checks = Turns(_MAX_CHECKS_PER_ADDRESS)
        self._streams: set[WatchStream] = set()
        self._draining = False

    def handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """The method, for a server."""
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        return grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})

    def drain(self) -> None:
        """End all streams with UNAVAILABLE, and accept no further one."""
        self._draining = True
        for stream in list(self._streams):
            stream.end(endings.unavailable("the server stops; resume elsewhere"))

    def end_topics(self, topic_ids: frozenset[str]) -> None:
        """End the streams of deleted topics."""
        for stream in list(self._streams):
            if stream.topic is not None and stream.topic.id in topic_ids:
                stream.end(endings.not_found(stream.topic.self_link))

    def topic_ids(self) -> frozenset[str]:
        """The ids of the topics that have streams."""
        return frozenset(stream.topic.id for stream in self._streams if stream.topic is not None)

    async def _serve(self, _requests: Any, context: Context) -> None:
        """One call. It returns when the client has gone, and aborts the call otherwise."""
        peer = address_of(context.peer())
        stream = WatchStream(self._parts.settings.max_queued_events)
        try:
            if self._draining:
                raise endings.unavailable("the server stops; connect elsewhere")
            self._parts.limits.enter(peer)
        except StreamEnding as refused:
            await self._abort(context, refused)
            return
        call = _Call(self._parts, context, stream, peer, self._first_checks)
        self._streams.add(stream)
        self._parts.stats.streams = len(self._streams)
        try:
            end = await call.run()
        finally:
            self._streams.discard(stream)
            call.close()
            # Last: who sees the number finds the counts of the ends, too.
            self._parts.stats.streams = len(self._streams)
        await self._abort(context, end)

    async def _abort(self, context: Context, end: StreamEnding) -> None:
        ended = self._parts.stats.ended
        ended[end.status] = ended.get(end.status, 0) + 1
        LOG.debug("watch: a stream ends: %s", end)
        await context.abort(grpc.StatusCode[end.status], end.detail, end.trailers)


class _Call:
    """One stream and its client."""

    def __init__(
        self, parts: WatchParts, context: Context, stream: WatchStream, identity: Hashable, first_checks: Turns
    ) -> None:
        self._parts = parts
        self._context = context
        self._stream = stream
        self._identity = identity
        self._first_checks = first_checks
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._expiry: asyncio.TimerHandle | None = None
        self._ping: asyncio.TimerHandle | None = None
        self._metadata_token = _token_of(context)

    async def run(self) -> StreamEnding:
        """Serve the stream until it has ended."""
        self._expect_request()
        self._begin(self._read_requests())
        return await self._stream.ended

    def close(self) -> None:
        """End the tasks and timers."""
        self._parts.hub.leave(self._stream)
        self._parts.limits.leave(self._identity)
        self._stream.end(endings.unavailable("the client has gone"))
        for timer in (self._expiry, self._ping):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._stream.topic is not None:
            self._parts.stats.subscribed -= 1
        ended = self._stream.ended
        # gRPC cancels the task of a client that has gone, and with it what the task waits for.
        if not ended.cancelled() and ended.result().status == "RESOURCE_EXHAUSTED" and self._stream.topic is not None:
            self._parts.stats.overflows += 1

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """What goes wrong in a task ends the stream."""
        try:
            await work
        except StreamEnding as end:
            self._stream.end(end)
        except StorageError as exc:
            LOG.warning("watch: database unavailable: %s", exc)
            self._stream.end(endings.unavailable("the database is unavailable"))
        except (aio.UsageError, aio.InternalError, aio.BaseError) as exc:
            LOG.debug("watch: the client has gone: %s", exc)
            self._stream.end(endings.unavailable("the client has gone"))
        except Exception:
            LOG.exception("watch: an unexpected error ends a stream")
            self._stream.end(endings.internal())

    def _expect_request(self) -> None:
        seconds = self._parts.settings.first_request_timeout
        self._expiry = self._loop.call_later(seconds, self._stream.end, endings.no_request(seconds))

    async def _read_requests(self) -> None:
        requests = Conversation()
        while True:
            data = await self._context.read()
            if data is aio.EOF:  # type: ignore[attr-defined]
                # The client may end its side and go on to read, as a command-line client does.
                if not requests.has_subscribed:
                    raise endings.invalid_argument("the client sent no subscription")
                return
            message = requests.receive(bytes(data))
            if isinstance(message, conversation.Refresh):
                await self._refresh(message.token)
            elif isinstance(message, Subscribe):
                await self._subscribe(message)

    async def _subscribe(self, message: Subscribe) -> None:
        parts, stream = self._parts, self._stream
        try:
            caller = await self._authenticate_first(message.token or self._metadata_token)
        except AuthenticationUnavailable:
            raise endings.unavailable("the identity service is unavailable") from None
        self._permit(caller)
        try:
            topic: WatchTopic | None = await parts.run(parts.topics.find, message.self_link, caller)
        except SeveralTopics as exc:
            raise endings.invalid_argument(str(exc)) from None
        if topic is None:
            raise endings.not_found(message.self_link)
        parts.limits.move(self._identity, caller.identity)
        self._identity = caller.identity
        after = message.resume_after
        if after is None and conversation.RESUME not in message.capabilities:  # a stock client
            after = await parts.run(parts.topics.last_served, topic, caller)
        if stream.ended.done():
            return
        stream.topic, stream.caller, stream.capabilities = topic, caller, message.capabilities
        stream.reached = after
        parts.stats.subscribed += 1
        self._expire_at(caller.expires_at)
        self._begin(self._write())
        epoch = _epoch_of(self._context) if message.resume_after is not None else ""
        self._begin(parts.catch_up.start(stream, after, epoch))
        if conversation.PING in message.capabilities:
            # The pings of many streams that connect together are spread over the interval.
            self._ping = self._loop.call_later(
                parts.settings.ping_interval * (0.5 + parts.random() / 2), self._send_ping
            )

    async def _write(self) -> None:
        await self._parts.hub.wait_for_position()
        await self._context.send_initial_metadata(((endings.EPOCH, self._parts.hub.epoch),))
        take, write = self._stream.take, self._context.write
        while True:
            await write(await take())

    async def _authenticate_first(self, token: str) -> Caller:
        """As :meth:`_authenticate`, in the turn of the client's address."""
        turns = self._first_checks.of(self._identity)
        await turns.acquire()
        check = self._loop.create_task(self._authenticate(token, self._parts.token_threads))

        def end(done: asyncio.Task[Caller]) -> None:
            turns.release()
            if not done.cancelled():
                done.exception()  # the client may have gone, and then no other code retrieves it

        # The thread goes on if the client goes: its turn ends with the check.
        check.add_done_callback(end)
        return await asyncio.shield(check)

    async def _authenticate(self, token: str, threads: Executor) -> Caller:
        """:raises StreamEnd: UNAUTHENTICATED: the token is missing, bad or expired.

        :raises AuthenticationUnavailable: the token could not be checked now.
        """
        try:
            return await self._loop.run_in_executor(threads, self._parts.authenticator.authenticate, token)
        except InvalidToken as exc:
            raise endings.unauthenticated(str(exc)) from None

    def _permit(self, caller: Caller) -> None:
        if not caller.may_subscribe:
            raise endings.permission_denied()

    async def _refresh(self, token: str) -> None:
        """Check a new token. While the identity service is unavailable, the stream lasts as long as its old token."""
        caller = None
        # A call that does not return is an outage, too.
        self._stream.is_checking_token = True
        while caller is None:
            try:
                caller = await self._authenticate(token, self._parts.refresh_threads)
            except AuthenticationUnavailable:
                await asyncio.sleep(self._parts.settings.token_retry_interval)
        self._stream.is_checking_token = False
        self._permit(caller)
        await self._replace_caller(caller)
        self._expire_at(caller.expires_at)

    async def _replace_caller(self, caller: Caller) -> None:
        """The stream shows from now on what the new token's caller sees."""
        stream, parts = self._stream, self._parts
        before, topic = stream.caller, stream.topic
        assert before is not None
        assert topic is not None
        if caller.rights != before.rights or caller.identity != before.identity:
            if not await parts.run(caller.may_watch, topic.project_id):
                raise endings.not_found(topic.self_link)
            parts.limits.move(self._identity, caller.identity)
            self._identity = caller.identity
        if stream.ended.done():
            return
        has_joined = parts.hub.has(stream)
        if has_joined:
            parts.hub.leave(stream)
        stream.caller = caller
        if has_joined:
            parts.hub.join(stream)

    def _expire_at(self, moment: float | None) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if moment is not None:
            seconds = moment + self._parts.settings.expiry_grace - self._parts.now()
            self._expiry = self._loop.call_later(max(0.0, seconds), self._expire)

    def _expire(self) -> None:
        if self._stream.is_checking_token:
            self._stream.end(endings.unavailable("the identity service is unavailable, and the old token has expired"))
        else:
            self._stream.end(endings.unauthenticated("the token has expired"))

    def _send_ping(self) -> None:
        """Put a ping into the queue, behind all events up to its bookmark."""
        stream, parts = self._stream, self._parts
        if stream.ended.done() or stream.topic is None:
            return
        metadata = events_pb2.EventMeta(watchTopicID=stream.topic.id, watchTopicSelfLink=stream.topic.self_link)
        reached = parts.hub.position if stream.reached is None else stream.reached
        if conversation.BOOKMARK in stream.capabilities and reached >= 0:
            metadata.sequenceID = reached
        ping = events_pb2.Event(
            id=str(uuid.uuid4()),
            time=messages.time_text(datetime.datetime.fromtimestamp(parts.now(), datetime.UTC)),
            version=messages.VERSION,
            product=messages.PRODUCT,
            type=events_pb2.Event.PING,
            metadata=metadata,
        )
        if stream.push(ping.SerializeToString()):
            parts.stats.pings += 1
            self._ping = self._loop.call_later(parts.settings.ping_interval, self._send_ping)


def _epoch_of(context: Context) -> str:
    """The epoch of the position that the client resumes after; empty: it sent none."""
    for name, value in context.invocation_metadata() or ():
        if name == endings.EPOCH and isinstance(value, str):
            return value
    return ""


def _token_of(context: Context) -> str:
    """The token of the call's metadata; empty: there is none."""
    for name, value in context.invocation_metadata() or ():
        if name == _AUTHORIZATION and isinstance(value, str):
            return conversation.without_scheme(value)
    return ""
