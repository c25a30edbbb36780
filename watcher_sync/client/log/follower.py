# SPDX-License-Identifier: Apache-2.0
"""The thread that reads a log from JetStream in order: the current model, then each message of the changes once.

The model has the last message of each subject, with the sequences of the changes. It is read from the begin of the last
snapshot on, and the changes after it.

A message that is not the next means that messages were discarded. The model is then read again, as after a stream
that went back in time. The log counts as away while the model is needed and is no whole copy.

A follower of states reads what waits from the model: each entity arrives once. Then it reads the changes, because a
mirror may be late.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import StreamInfo
from nats.js.client import JetStreamContext

from watcher_sync.backoff import Backoff
from watcher_sync.client.log.consumer import LogConsumer, LogLost
from watcher_sync.client.log.current_model import ANY, BEGIN, END, MODEL_SUFFIX, CurrentModel, find_model
from watcher_sync.client.log.messages import SNAPSHOT, SNAPSHOT_BEGIN
from watcher_sync.client.log.received import (
    NO_POSITION,
    PURGED,
    REPLACED,
    LogMessage,
    ModelBegins,
    ModelEnds,
    Received,
)
from watcher_sync.client.log.servers import Connect, close
from watcher_sync.client.log.stored import label_of, last_message, marker_of, message_at
from watcher_sync.tasks import end_tasks

_IN_SNAPSHOT: Final = (SNAPSHOT_BEGIN, SNAPSHOT)
"""Changes whose message is never a position."""
_TIMEOUT_SECONDS: Final = 5
_MAX_DOUBTS: Final = 5
"""So often in a row a stream may end before what was read: a new leader has to apply first what it has."""
_JOIN_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 2.0
"""A follower that is closed needs less, to close its connection."""

LOG = logging.getLogger(__name__)


class _ModelNeeded(Exception):
    """The changes do not continue where they were read. The argument is the reason."""


class LogFollower:
    """Reads one log in a thread of its own until it is closed. One thread takes what was received."""

    def __init__(
        self,
        connect: Connect,
        stream: str,
        places: Sequence[tuple[str, int, int]],
        *,
        states: bool = False,
        prefix: str = "$JS.API",
        logger: logging.Logger = LOG,
    ) -> None:
        """:param connect: connects to JetStream.

        :param places: where to continue: (epoch, seq, sequence). The first one that the stream has is taken.
        :param states: pass the newest state of each entity, instead of each change, of what waits at a connection.
        :param prefix: of the subjects of JetStream's interface.
        """
        self.is_connected = False
        """Whether the log answers. For any thread, as the next one."""
        self.problem = ""
        """Why it does not; empty: it was not asked yet, or answers."""
        self._connect = connect
        self._stream = stream
        self._model_stream = stream + MODEL_SUFFIX
        self._states = states
        self._prefix = prefix
        self._log = logger
        self._places = list(places)
        self._changed = threading.Condition()
        """Guards the next three."""
        self._received: list[Received] = []
        self._ended = False
        self._failure: BaseException | None = None
        # All below belongs to the thread of the event loop.
        self._created: datetime.datetime | None = None
        """When the stream was created; None: nothing was read yet."""
        self._cursor = 0
        """The sequence of the last message that arrived or is not wanted."""
        self._last: Msg | None = None
        """The message at the cursor; None: it is in the model only."""
        self._model: CurrentModel | None = None
        """The model that is being read first; None: the changes are."""
        self._settles_at: int | None = None
        """The changes up to this sequence make the model whole."""
        self._is_whole = True
        """Whether what was received up to the cursor is a whole model: not within a snapshot."""
        self._states_end = 0
        """The last sequence of the model that a follower of states reads before the changes."""
        self._reason: str | None = None
        """Why the model is to be read first; None: only if the stream does not continue."""
        self._consumer: LogConsumer | None = None
        """The latest."""
        self._doubts = 0
        self._backoff = Backoff(0.2, 5.0)
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._follow())
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"log-{stream}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def take(self, timeout: float | None) -> list[Received] | None:
        """What was received since the last call, at least one; None: nothing within the timeout, or it is closed.

        :raises Exception: what ended the thread, if nothing is left.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._received or self._ended, timeout)
            if not self._received:
                if self._failure is not None:
                    raise self._failure
                return None
            received, self._received = self._received, []
            if not self._ended:
                self._loop.call_soon_threadsafe(self._ask)
        return received

    @property
    def pending(self) -> int:
        """Messages that wait in the stream, as the last one said, and here. For any thread."""
        return (self._consumer.pending if self._consumer is not None else 0) + len(self._received)

    def close(self) -> None:
        """Ends the thread. Any thread may call it, and more than once."""
        with self._changed:
            if not self._ended:
                self._loop.call_soon_threadsafe(self._closing.set)
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    # The thread of the event loop.

    def _run(self) -> None:
        self._loop.run_until_complete(self._follow_until_closed())
        with self._changed:
            # A setting that the library refuses, or a defect: the caller gets it.
            self._failure = None if self._task.cancelled() else self._task.exception()
            self._ended = True
            self._loop.close()
            self._changed.notify_all()

    async def _follow_until_closed(self) -> None:
        closing = self._loop.create_task(self._closing.wait())
        await asyncio.wait({self._task, closing}, return_when=asyncio.FIRST_COMPLETED)
        await end_tasks([self._task], again=_CANCEL_SECONDS)
        # The library has left some, such as those of subscriptions.
        await end_tasks(asyncio.all_tasks() - {asyncio.current_task()})

    def _put(self, received: Received) -> None:
        self._recover(self._cursor)
        with self._changed:
            self._received.append(received)
            if len(self._received) == 1:
                self._changed.notify_all()

    def _recover(self, to: float = math.inf) -> None:
        """The log answers, and was read up to a sequence, or to its end."""
        self.is_connected, self.problem = True, ""
        if self._backoff.moved(to):
            self._log.info("log %s: recovered", self._stream)

    async def _follow(self) -> None:
        while True:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    client = await self._connect(self._lost)
                    stack.push_async_callback(close, client)
                    await self._read(client, client.jetstream(timeout=_TIMEOUT_SECONDS, prefix=self._prefix))
            except _ModelNeeded as exc:
                self._reason = str(exc)
                self._log.warning("log %s: the model is read again: %s", self._stream, exc)
            except (NatsError, OSError, LogLost) as exc:
                self.is_connected, self.problem = False, str(exc) or type(exc).__name__
                pause = self._backoff.failed(self._cursor)
                level = logging.WARNING if self._backoff.failures == 1 else logging.DEBUG
                self._log.log(level, "log %s: unavailable, retrying: %s", self._stream, self.problem)
                await asyncio.sleep(pause)

    def _lost(self, why: Exception | None) -> None:
        self._end(LogLost(f"disconnected: {why}" if why is not None else "disconnected"))

    def _end(self, error: Exception | None) -> None:
        if self._consumer is not None:
            self._consumer.end(error)

    def _ask(self) -> None:
        if self._consumer is not None:
            self._consumer.wake()

    # Where to read.

    async def _read(self, client: Client, js: JetStreamContext) -> None:
        """Reads until something is lost.

        :raises nats.errors.Error, OSError, LogLost, _ModelNeeded: what is.
        """
        info = await js.stream_info(self._stream)
        self._reason = self._reason or await self._objection(js, info)
        if self._reason is not None:
            await self._begin_model(js, self._reason)
        if self._model is not None:
            await self._read_model(client, js, self._model.last, self._take_entity)
            await self._end_model(js, self._model)
        while True:
            if self._states and self._is_whole:
                await self._read_states(client, js)
            await self._consume(client, js, self._stream, self._take_change)

    async def _objection(self, js: JetStreamContext, info: StreamInfo) -> str | None:
        """Why the reading cannot continue where it was; None: it can."""
        if self._created is None:
            return await self._resume(js, info) if self._places else NO_POSITION
        if info.created != self._created:
            return REPLACED
        if self._model is not None:
            return None if (await find_model(js, self._stream)).continues(self._model) else REPLACED
        if self._is_behind(info.state.last_seq, self._cursor):
            return REPLACED
        if self._last is None:
            # Changes show a gap themselves, but states do not: a deletion may have expired.
            return PURGED if self._states and info.state.first_seq > self._cursor + 1 else None
        found = await message_at(js, self._stream, self._cursor)
        if found is None:
            return PURGED
        return None if label_of(found.headers) == label_of(self._last.headers) else REPLACED

    def _is_behind(self, last: int, wanted: int) -> bool:
        """Whether a stream ends before what it had.

        :raises LogLost: it does, but its leader may be new.
        """
        self._doubts = self._doubts + 1 if last < wanted else 0
        if 0 < self._doubts <= _MAX_DOUBTS:
            raise LogLost(f"the stream ends at {last}, before {wanted}")
        return last < wanted

    async def _resume(self, js: JetStreamContext, info: StreamInfo) -> str | None:
        was_replaced = False
        for epoch, seq, sequence in self._places:
            found = await message_at(js, self._stream, sequence)
            position, change = label_of(found.headers if found is not None else None)
            if position == f"{epoch}:{seq}" and change not in _IN_SNAPSHOT:
                self._created, self._cursor = info.created, sequence
                return None
            was_replaced = was_replaced or found is not None
        newest = max(sequence for _, _, sequence in self._places)
        return REPLACED if was_replaced or self._is_behind(info.state.last_seq, newest) else PURGED

    async def _begin_model(self, js: JetStreamContext, reason: str) -> None:
        """:raises nats.errors.Error, LogLost: there is no whole model."""
        self._model = model = await find_model(js, self._stream)
        self._cursor, self._created = model.begin, model.created
        self._settles_at = self._last = self._reason = None
        self._is_whole = False
        self._put(ModelBegins(model.begin_data, reason, model.begin))

    async def _end_model(self, js: JetStreamContext, model: CurrentModel) -> None:
        """:raises nats.errors.Error, LogLost, _ModelNeeded: what was read is no whole model."""
        now = await find_model(js, self._stream)
        if now.created != self._created or not now.continues(model):
            raise _ModelNeeded(REPLACED)
        change = await last_message(js, self._stream, ANY)  # the model may be late
        self._cursor, self._model = model.tail, None
        if model.is_complete:
            self._settles_at = max(now.tail, (change.seq if change is not None else None) or 0)
            self._settle()

    async def _read_states(self, client: Client, js: JetStreamContext) -> None:
        """Read what waits from the model, unless it is not whole or loses some of it: the changes have the same."""
        try:
            model = await find_model(js, self._stream)
        except LogLost as exc:
            self._log.debug("log %s: the changes are read without the model: %s", self._stream, exc)
            return
        self._states_end, place = model.last, (self._cursor, self._last)
        if model.last > self._cursor:
            await self._read_model(client, js, model.last, self._take_state)
            with contextlib.suppress(LogLost):
                if (await find_model(js, self._stream)).continues(model):
                    return
            (self._cursor, self._last), self._is_whole = place, True

    async def _read_model(
        self, client: Client, js: JetStreamContext, end: int, take: Callable[[Msg, int], None]
    ) -> None:
        """Receive what the model has after the cursor, up to a sequence. Its last messages may leave it meanwhile."""
        is_whole = self._is_whole
        while self._cursor < end and self._is_whole is is_whole:
            await self._consume(client, js, self._model_stream, take)
            last = await last_message(js, self._model_stream, ANY)
            if last is None or (last.seq or 0) <= self._cursor:
                return

    def _settle(self) -> None:
        if self._settles_at is not None and self._cursor >= self._settles_at:
            self._settles_at = None
            self._put(ModelEnds(self._cursor))
            self._set_whole(True)

    def _set_whole(self, is_whole: bool) -> None:
        """Note whether the model is whole. A follower of states chooses the stream again."""
        if is_whole != self._is_whole:
            self._is_whole = is_whole
            if self._states:
                self._end(None)

    # What arrives.

    async def _consume(
        self, client: Client, js: JetStreamContext, stream: str, take: Callable[[Msg, int], None]
    ) -> None:
        """Receive the messages of a stream after the cursor, until :meth:`_end`, or up to the end of the model.

        :raises LogLost, _ModelNeeded: the consumer is over.
        """

        async def check() -> None:
            if (await js.stream_info(self._stream)).created != self._created:
                raise _ModelNeeded(REPLACED)

        alive = self._recover if stream == self._stream else lambda: self._end(None)
        self._consumer = LogConsumer(client, js, self._prefix, take, alive, lambda: len(self._received))
        await self._consumer.run(stream, self._cursor + 1, check)

    def _take_entity(self, message: Msg, sequence: int) -> None:
        assert self._model is not None
        if sequence > self._model.last:
            self._cursor = self._model.last  # a later message has replaced the last one
        elif sequence > self._cursor:
            self._cursor = sequence
            self._put(LogMessage(sequence, message.data, True, marker_of(message.subject)))
        if self._cursor == self._model.last:
            self._end(None)

    def _take_change(self, message: Msg, sequence: int) -> None:
        if sequence <= self._cursor:
            return
        if sequence != self._cursor + 1:
            self._end(_ModelNeeded(PURGED))
            return
        self._pass_on(message, sequence)
        if message.subject.endswith(BEGIN):
            self._settles_at = None
            self._set_whole(False)
        elif message.subject.endswith(END):
            self._set_whole(True)
        self._settle()

    def _take_state(self, message: Msg, sequence: int) -> None:
        if sequence > self._cursor:
            self._pass_on(message, sequence)
            self._set_whole(not message.subject.endswith(BEGIN))
        if sequence >= self._states_end:
            self._end(None)

    def _pass_on(self, message: Msg, sequence: int) -> None:
        self._cursor, self._last = sequence, message
        self._put(LogMessage(sequence, message.data, False, marker_of(message.subject)))
