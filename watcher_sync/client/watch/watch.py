# SPDX-License-Identifier: Apache-2.0
"""One watch: a thread that opens streams one after the other, catches up, and delivers the events of one topic.

A session is one stream, in this order:

1. It sends the first Request. From then on, live events wait in the merge buffer.
2. It fetches by REST what is newer than the watermark, and delivers that.
3. It delivers the live events in order. At a gap it fetches again.

A session that ends for a transient reason is followed by a pause and another session. Any other reason ends the watch.
The watermark is stored after the delivery: after a crash the consumer gets the last events again, and loses none.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import NamedTuple

import grpc

from watcher_sync.backoff import Backoff
from watcher_sync.client.watch.delivery import Consumer, WatchDelivery
from watcher_sync.client.watch.errors import (
    EventsPurged,
    HarvestFailed,
    HarvestRefused,
    Unauthenticated,
    WatchError,
    error_of_status,
    is_of_proxy,
)
from watcher_sync.client.watch.harvester import Harvester, HarvestsEpochs
from watcher_sync.client.watch.merge import MergeBuffer, Missing, Ready
from watcher_sync.client.watch.models import WatchEvent, event_of, sequence_of
from watcher_sync.client.watch.options import MAX_PAUSE_SECONDS, Gap, WatchOptions
from watcher_sync.client.watch.refresher import TokenRefresher
from watcher_sync.client.watch.sequences import SAVE_SECONDS, Sequence, WatermarkWriter
from watcher_sync.client.watch.silence import StreamSilence
from watcher_sync.client.watch.stream import Stream, StreamEnd, Stub, first_request
from watcher_sync.extensions.watch.wire import events_pb2

_JOIN_SECONDS = 10.0
_NOT_OPENED = StreamEnd(grpc.StatusCode.UNAVAILABLE, "not open", {})


class Shared(NamedTuple):
    """What all watches of a manager share."""

    stub: Stub
    tenant_id: str
    token_getter: Callable[[], str]
    refresher: TokenRefresher
    sequence: Sequence
    harvester: Harvester | None
    """None: the service resumes streams, and there is no other way to get events again."""
    logger: logging.Logger
    options: WatchOptions


class _Interrupted(Exception):
    """The session ends for a transient reason, and another one follows."""


class Watch:
    """One watch. Its own thread delivers; any thread may close it."""

    def __init__(
        self,
        watch_id: str,
        topic: str,
        watermark: int,
        events: Consumer[WatchEvent],
        errors: Consumer[WatchError] | None,
        shared: Shared,
        on_finished: Callable[[str, WatchError], None],
    ) -> None:
        """:param watermark: the sequence to resume after; 0: begin with the next event.

        :param on_finished: gets the id and the error when an error has ended the watch.
        """
        self.id = watch_id
        self.topic = topic
        self._shared = shared
        self._logger = shared.logger
        self._on_finished = on_finished
        self._closing = threading.Event()
        self._events = WatchDelivery(events, self._closing)
        self._errors = None if errors is None else WatchDelivery(errors, self._closing)
        self.ended: Future[None] = Future()
        """Is done when the watch is closed, or when an error has ended it."""
        self._changed = threading.Condition()
        """Guards ``_buffer`` and ``_end``."""
        self._buffer: MergeBuffer[events_pb2.Event] = MergeBuffer(watermark, shared.options.buffer_limit)
        self._end: StreamEnd | None = _NOT_OPENED
        """How the stream of this session ended; None while it is open."""
        self._session_number = 0
        self._has_received = False
        self._was_served = False
        """Whether any session has received something."""
        self._opened_at = 0.0
        self._silence = StreamSilence()
        self._backoff = Backoff(*shared.options.backoff, jitter=1.0)
        self._harvest_backoff = Backoff(*shared.options.backoff, jitter=1.0)
        self._reported_gap = self._reported_overflows = 0
        self._watermark = WatermarkWriter(shared.sequence, topic, watermark, shared.logger)
        self._refused_tokens = 0
        self._thread = threading.Thread(target=self._run, name=f"watch-{watch_id}", daemon=True)

    @property
    def is_streaming(self) -> bool:
        """Whether the stream is open. The protocol has no acknowledgement: it may still be refused."""
        return self._end is None

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the watch, and waits for a delivery that is running. The consumer itself may call it."""
        self._closing.set()
        self._finish(None)
        with self._changed:
            self._changed.notify_all()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)

    # The watch's own thread.

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    self._session()
                except _Interrupted as exc:
                    pause = self._backoff.failed()
                    level = logging.WARNING if self._backoff.failures == 1 else logging.DEBUG
                    self._logger.log(level, "watch %s: disconnected, retrying in %.1f s: %s", self.topic, pause, exc)
                    self._closing.wait(pause)
        except WatchError as exc:
            self._fail(exc)
        except Exception as exc:  # a plugin's harvester, or a defect
            self._logger.exception("watch %s: failed", self.topic)
            error = WatchError(f"{self.topic}: the watch failed: {type(exc).__name__}")
            error.__cause__ = exc
            self._fail(error)

    def _fail(self, error: WatchError) -> None:
        self._logger.error("watch %s: ended: %s", self.topic, error)
        self._on_finished(self.id, error)
        callback = self._shared.options.on_event_sync_error
        if isinstance(error, EventsPurged):
            self._watermark.give_up(error.epoch)
            if callback is not None:
                self._call(callback, error)
        self._finish(error)
        try:
            if self._errors is not None:
                self._errors.deliver(error)
        except WatchError:
            self._logger.exception("watch %s: the consumer of the errors failed", self.topic)

    def _finish(self, error: WatchError | None) -> None:
        """The first reason counts."""
        with contextlib.suppress(InvalidStateError):
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)

    def _session(self) -> None:
        """Runs one stream until it ends.

        :raises _Interrupted: when another session may succeed.
        :raises WatchError: when it cannot.
        """
        token = self._token()
        with self._changed:
            self._session_number += 1
            self._has_received = False
            self._buffer.connect()
            self._end = None
            self._opened_at = time.monotonic()
            self._silence.begin(self._opened_at)
        level = logging.DEBUG if self._backoff.failures else logging.INFO
        self._logger.log(level, "watch %s: streaming after sequence %d", self.topic, self._watermark.delivered)
        try:
            stream = self._open(token, self._session_number)
            try:
                self._shared.refresher.add(stream, token)
                self._pump()
            finally:
                self._shared.refresher.remove(stream)
                stream.close()
        finally:
            self._watermark.save()
            with self._changed:
                self._end = self._end or _NOT_OPENED

    def _open(self, token: str, number: int) -> Stream:
        return Stream(
            self._shared.stub,
            first_request(self.topic, token, self._watermark.delivered),
            self._shared.tenant_id,
            self._watermark,
            on_event=lambda message: self._on_event(number, message),
            on_bookmark=lambda sequence: self._on_bookmark(number, sequence),
            on_end=lambda end: self._on_end(number, end),
            logger=self._logger,
        )

    def _pump(self) -> None:
        while not self._closing.is_set():
            step = self._next_step()
            if isinstance(step, Ready):
                self._deliver(step.item)
            elif step is not None:
                self._catch_up(step)

    def _next_step(self) -> Ready[events_pb2.Event] | Missing | None:
        """The next event or the need of a catch-up. Waits; None after a wait, and when the watch is closed."""
        with self._changed:
            step = self._buffer.take()
            if isinstance(step, Ready):
                return step
            # All that was taken before is delivered, so a bookmark counts, too.
            self._watermark.advance(self._buffer.watermark)
            self._raise_end()
            if step is None and not self._closing.is_set():
                # The end of an outage is reported after a time, too, and the stream may stay without any event.
                is_settled = self._watermark.is_saved and not self._backoff.failures
                deadline = self._silence.deadline
                until_silent = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._changed.wait(until_silent if is_settled else SAVE_SECONDS)
        self._watermark.save_if_due()
        return step

    def _raise_end(self) -> None:
        """Raises if the stream has ended, or fallen silent. Called with the lock."""
        if self._has_received or time.monotonic() - self._opened_at > MAX_PAUSE_SECONDS:
            if self._backoff.failures:
                self._logger.info("watch %s: connected again", self.topic)
            self._backoff.succeeded()
            self._refused_tokens = 0
        end = self._end
        if end is None:
            deadline = self._silence.deadline
            if deadline is not None and time.monotonic() >= deadline:
                raise _Interrupted("the service sends no pings any more")
            return
        if self._was_served and is_of_proxy(end.details):
            raise _Interrupted(f"{end.code.name} {end.details}")
        error = error_of_status(end.code, end.details, end.trailers, topic=self.topic, after=self._watermark.delivered)
        if isinstance(error, Unauthenticated):
            self._on_refused_token(error)
        if error is not None:
            raise error
        raise _Interrupted(f"{end.code.name} {end.details}".strip())

    def _on_refused_token(self, error: Unauthenticated) -> None:
        """The first refusal gets another session with a fresh token, the second ends the watch."""
        self._refused_tokens += 1
        if self._refused_tokens > 1:
            raise error
        raise _Interrupted(str(error))

    def _catch_up(self, missing: Missing) -> None:
        """Fetches and delivers what is newer than the watermark. Pauses after a failure."""
        is_first_report = self._report(missing)
        harvester = self._shared.harvester
        if harvester is None:
            self._resume(missing, is_first_report)
            return
        with self._changed:
            self._buffer.begin_catch_up()
        try:
            self._harvest(harvester, missing.after)
        except HarvestFailed as exc:
            self._pause(exc)
            return
        except HarvestRefused as exc:
            if exc.status == 401:
                self._on_refused_token(Unauthenticated(str(exc)))
            raise
        if self._closing.is_set():
            return
        with self._changed:
            is_complete = self._buffer.end_catch_up()
        if is_complete:
            self._harvest_backoff.succeeded()
        else:
            self._pause(HarvestFailed(f"{self.topic}: the catch-up lacks events that the stream had sent"))

    def _report(self, missing: Missing) -> bool:
        """Reports an overflow of the buffer and a gap, once each. Returns whether there was one to report."""
        with self._changed:
            overflows, seen = self._buffer.overflows, self._reported_overflows
        self._reported_overflows = overflows
        if overflows > seen:
            self._logger.warning(
                "watch %s: the consumer is slow, fetching %d live events again", self.topic, overflows - seen
            )
        if missing.before is None or missing.before <= self._reported_gap:
            return overflows > seen
        self._reported_gap = missing.before
        self._logger.warning(
            "watch %s: gap, the stream lacks events after %d up to %d", self.topic, missing.after, missing.before
        )
        if (on_gap := self._shared.options.on_gap) is not None:
            self._call(on_gap, Gap(self.topic, missing.after, missing.before))
        return True

    def _resume(self, missing: Missing, is_first_report: bool) -> None:
        """Without catch-up: a new stream brings what this one lacks; a second one would bring no more.

        :raises _Interrupted: when a new stream is necessary.
        """
        if is_first_report:
            raise _Interrupted(f"the stream lacks events after {missing.after}")
        with self._changed:
            self._buffer.trust_stream()

    def _harvest(self, harvester: Harvester, after: int) -> None:
        epoch = self._watermark.epoch
        if epoch and isinstance(harvester, HarvestsEpochs):
            messages = harvester.harvest_of_epoch(self.topic, after, self._token(), epoch)
        else:
            messages = harvester.harvest(self.topic, after, self._token())
        for message in messages:
            with self._changed:
                is_new = self._buffer.accept(message.metadata.sequenceID)
            if is_new:
                self._deliver(message)
            if self._closing.is_set():
                return

    def _pause(self, reason: HarvestFailed) -> None:
        """Waits before another catch-up. A stream that ends, or the close of the watch, ends the wait."""
        pause = self._harvest_backoff.failed()
        level = logging.WARNING if self._harvest_backoff.failures == 1 else logging.DEBUG
        self._logger.log(level, "watch %s: catch-up failed, retrying in %.1f s: %s", self.topic, pause, reason)
        until = time.monotonic() + pause
        with self._changed:
            while not self._closing.is_set() and self._end is None and not self._buffer.is_contiguous():
                seconds = until - time.monotonic()
                if seconds <= 0:
                    return
                self._changed.wait(seconds)

    def _deliver(self, message: events_pb2.Event) -> None:
        if not self._events.deliver(event_of(message)):
            return
        self._watermark.advance(sequence_of(message)[0])
        self._watermark.save_if_due()

    def _token(self) -> str:
        try:
            return self._shared.token_getter()
        except Exception as exc:
            raise _Interrupted(f"no token: {type(exc).__name__}") from exc

    def _call(self, callback: Callable[..., None], argument: object) -> None:
        try:
            callback(argument)
        except Exception:
            self._logger.exception("watch %s: a callback failed", self.topic)

    # The reader thread of the session's stream. An older session's thread changes nothing.

    def _on_event(self, number: int, message: events_pb2.Event) -> None:
        sequence, previous = sequence_of(message)
        with self._changed:
            if number == self._session_number:
                self._receive()
                self._silence.receive(time.monotonic())
                self._buffer.add(sequence, previous, message)
                self._changed.notify_all()

    def _on_bookmark(self, number: int, sequence: int) -> None:
        with self._changed:
            if number == self._session_number:
                self._silence.ping(time.monotonic())
                if sequence > 0:
                    self._receive()
                    self._buffer.bookmark(sequence)
                self._changed.notify_all()

    def _receive(self) -> None:
        """The service has accepted the position. Called with the lock."""
        if not self._has_received:
            self._watermark.accept_epoch()
        self._has_received = self._was_served = True

    def _on_end(self, number: int, end: StreamEnd) -> None:
        with self._changed:
            if number == self._session_number:
                self._end = end
                self._changed.notify_all()
