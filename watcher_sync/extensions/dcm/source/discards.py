# SPDX-License-Identifier: Apache-2.0
"""Messages that a stream discarded before they were read: by its limits, a purge or a deletion.

Neither the stream nor the consumer reports them: the server moves the consumer on. Two facts reveal them.

* The first message of the stream is after the next one that we expect.
* A delivery skips sequences. The numbers of the consumer prove that no other reader got them.

If the source reads all subjects of the stream, each skipped sequence is a lost message. Otherwise it may be a message
of another subject. Then only sequences before the first message of the stream count, as an upper bound.

For the event loop's thread only.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Final

from oslo_log import log as logging

from watcher_sync.extensions.dcm.source.cursor import Place
from watcher_sync.extensions.dcm.source.stream import ConsumerHandle, StreamInfo
from watcher_sync.sources.base import Gaps
from watcher_sync.transports.nats.messages import JetStreamMessage, pending_of

LOG = logging.getLogger(__name__)

REPORT_INTERVAL_SECONDS: Final = 30.0
"""While a stream keeps discarding, what it discarded is reported together after this time."""

_BILLION: Final = 1_000_000_000


class Discards:
    """What one source has received of its stream, and what it can not receive any more.

    :param source: its name, for the log.
    :param stream: its name, for the log.
    :param gaps: counts what is reported.
    :param clock: monotonic seconds.
    """

    def __init__(self, source: str, stream: str, gaps: Gaps, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._stream = stream
        self._gaps = gaps
        self._clock = clock
        self._covered = False
        """Whether the source reads all subjects of the stream."""
        self._was_behind = False
        """Whether messages of ours waited since nothing was left to read."""
        self._latest: JetStreamMessage | None = None
        """The last message that arrived since then."""
        self._received = 0
        """The greatest sequence that arrived, or before which nothing of ours can arrive any more."""
        self._received_at = 0
        self._delivered = 0
        """The greatest sequence that the consumer is known to have delivered."""
        self._deliveries = 0
        """The number that the consumer gives to its next delivery."""
        self._unexplained: int | None = None
        """The first sequence that was skipped and may be one of another subject."""
        self._lost = 0
        self._range: tuple[int, int] | None = None
        """First and last sequence of what is lost and not reported."""
        self._since = 0
        """When the server stored the last message that was received before that."""
        self._reported_at: float | None = None

    @property
    def received(self) -> Place:
        """The last message that arrived."""
        return Place(self._received, self._received_at)

    def forget(self) -> None:
        """The stream is another one: nothing of it has arrived."""
        self.flush()
        self._received = self._received_at = self._delivered = 0
        self._unexplained = None

    def begin(self, stream: StreamInfo, consumer: ConsumerHandle, known: Place) -> None:
        """The source attaches to its consumer.

        :param known: the last message that is committed; sequence 0: nothing is known of this stream.
        """
        self._covered = stream.covered
        if known.sequence > self._received:
            self._received, self._received_at = known.sequence, known.time
        if not self._received:
            # Without a position, the consumer's own one: it does not move when messages are discarded.
            self._received = max(consumer.delivered, stream.first - 1) if consumer.made else consumer.delivered
        self._add_discarded(stream.first)
        self._delivered = max(self._received, consumer.delivered)
        self._deliveries = consumer.deliveries + 1
        self._unexplained = self._latest = None
        self._was_behind = True
        self._report_if_due()

    def receive(self, message: JetStreamMessage) -> None:
        """A message has arrived; notices what the consumer skipped."""
        sequence = message.sequence
        if sequence > self._delivered:
            # A consumer that was created now may begin anywhere.
            if sequence > self._delivered + 1 and message.consumer_sequence == self._deliveries > 1:
                self._on_skip(message)
            self._delivered = sequence
        self._deliveries = message.consumer_sequence + 1
        self._latest = message
        if sequence > self._received:
            self._received, self._received_at = sequence, message.stored_at

    def check(self, stream: StreamInfo, consumer: ConsumerHandle) -> bool:
        """Look for what no further delivery would reveal.

        :param stream: as it was before ``consumer``.
        :returns: whether nothing of ours up to the end of the stream is unread or unacknowledged.
        """
        self._covered = stream.covered
        if (first := self._unexplained) is not None:
            self._unexplained = None
            self._add_lost(first, min(stream.first, self._received) - 1)
        quiet = consumer.pending == 0 and consumer.ack_pending == 0 and consumer.deliveries == self._deliveries - 1
        self._was_behind |= consumer.pending > 0
        if quiet:
            if self._covered or self._was_behind or _has_backlog(self._latest):
                self._add_discarded(stream.first)
            self._was_behind, self._latest = False, None
            if stream.last.sequence > self._received:
                self._received, self._received_at = stream.last.sequence, stream.last.time
            self._delivered = max(self._delivered, self._received)
        self._report_if_due()
        return quiet

    def _on_skip(self, message: JetStreamMessage) -> None:
        """The consumer skipped sequences before a message. Without a backlog they are of other subjects."""
        first = self._delivered + 1
        if self._covered:
            self._add_lost(first, message.sequence - 1)
            self._report_if_due()
        elif self._unexplained is None and (_has_backlog(message) or _has_backlog(self._latest)):
            self._unexplained = first

    def _add_discarded(self, first: int) -> None:
        """Everything before the first message of the stream that has not arrived is lost."""
        if first > self._received + 1:
            self._add_lost(self._received + 1, first - 1)
            self._received = first - 1

    def _add_lost(self, first: int, last: int) -> None:
        if last < first:
            return
        if self._range is None:
            self._since = self._received_at
            self._range = (first, last)
        else:
            self._range = (min(first, self._range[0]), max(last, self._range[1]))
        self._lost += last - first + 1

    def _report_if_due(self) -> None:
        if self._reported_at is None or self._clock() - self._reported_at >= REPORT_INTERVAL_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Report what is lost and not reported yet."""
        if self._range is None:
            return
        (first, last), count, self._range, self._lost = self._range, self._lost, None, 0
        self._reported_at = self._clock()
        since = f", all after the one stored at {utc(self._since)}" if self._since else ""
        if self._covered:
            note = f"the stream {self._stream} discarded {count} messages before they were read"
        else:
            note = f"the stream {self._stream} discarded at most {count} messages of our subjects before they were read"
        self.report(f"{note}, in sequences {first} to {last}{since}", count if self._covered else 0)

    def report(self, note: str, lost: int) -> None:
        """Count a gap, and log one line.

        :param lost: messages, as far as their number is known.
        """
        LOG.warning("source %s: events are lost: %s", self._source, note)
        self._gaps.add(note, lost)


def _has_backlog(message: JetStreamMessage | None) -> bool:
    """Whether more messages of ours waited when the server sent this one."""
    return message is not None and pending_of(message.message.reply) > 0


def utc(nanoseconds: int) -> str:
    """A time as people read it, to the second."""
    return datetime.datetime.fromtimestamp(nanoseconds // _BILLION, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
