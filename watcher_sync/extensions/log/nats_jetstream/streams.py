# SPDX-License-Identifier: Apache-2.0
"""The stream of changes and the stream of the current model: made or verified, and what they have.

The model is a mirror of the changes with one message per subject. The server copies, and a message has the same
sequence in both. So a reader takes the model up to a sequence, and then the changes after it.

Guaranteed: an existing stream is never changed. An error names everything that is wrong with it.

Source: NATS JetStream wire API reference. For the event loop's thread only.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from watcher_sync.extensions.log.base import OutletError
from watcher_sync.extensions.log.nats_jetstream.settings import LogStreamSpec
from watcher_sync.transports.nats.api import (
    NANOSECONDS,
    NO_STREAM,
    NOT_FOUND,
    STREAM_EXISTS,
    JetStreamAnswer,
    JetStreamApi,
    JetStreamError,
)
from watcher_sync.wire.log_streams import FirstMessage, LogStream, SnapshotMarkers

_NEVER: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)
"""The time in an answer that has none."""
_DUPLICATE_WINDOW: Final = NANOSECONDS
"""For as long the server remembers message ids. The fence prevents repeats, so a long time would cost memory only."""


class MirrorConfig(msgspec.Struct, frozen=True):
    """What a stream is a copy of."""

    name: str = ""
    filter_subject: str = ""
    opt_start_seq: int = 0
    opt_start_time: str = ""
    subject_transforms: Any = None
    external: Any = None


class LogStreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a stream's configuration that the driver depends on."""

    name: str = ""
    subjects: list[str] = []
    retention: str = "limits"
    discard: str = "old"
    max_age: int = 0
    max_msgs: int = -1
    max_bytes: int = -1
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    no_ack: bool = False
    sealed: bool = False
    deny_purge: bool = False
    mirror: MirrorConfig | None = None
    sources: Any = None
    subject_transform: Any = None
    subject_delete_marker_ttl: int = 0
    """The server writes messages of its own where others expire: servers from 2.11 on."""
    allow_atomic: bool = False
    """Whether it stores batches as a whole: servers from 2.12 on."""
    allow_msg_ttl: bool = False
    """Whether a message may have a time to live: servers from 2.11 on."""


class LogStreamState(msgspec.Struct, frozen=True):
    """What a stream has."""

    first_seq: int = 0
    last_seq: int = 0
    """Of the last message that it had."""
    messages: int = 0


class LogStreamInfo(JetStreamAnswer, kw_only=True):
    """A stream."""

    config: LogStreamConfig = LogStreamConfig()
    state: LogStreamState = LogStreamState()
    created: datetime.datetime = _NEVER
    made: bool = False
    """Whether it was created just now."""

    @property
    def described(self) -> LogStream:
        """As the rules about both streams have it."""
        state, mirror = self.state, self.config.mirror
        copies = None if mirror is None else mirror.name
        return LogStream(self.config.name, self.created, state.first_seq, state.last_seq, state.messages, copies)

    @property
    def deletion_ttl(self) -> int:
        """Seconds after which a deletion may leave the stream; 0: the server cannot, or shall not."""
        return self.config.max_age // NANOSECONDS if self.config.allow_msg_ttl else 0


class _LoggedMessage(msgspec.Struct):
    seq: int = 0
    hdrs: str = ""
    time: datetime.datetime = _NEVER


class _MessageAnswer(JetStreamAnswer, kw_only=True):
    message: _LoggedMessage = msgspec.field(default_factory=_LoggedMessage)


class LogStreams:
    """The administration of the two streams over one connection.

    Every method raises :class:`~watcher_sync.sources.session.NotReady` when JetStream does not answer.
    """

    def __init__(self, api: JetStreamApi, spec: LogStreamSpec) -> None:
        self._api = api
        self._spec = spec

    async def find_changes(self, *, make: bool) -> LogStreamInfo:
        """The stream of changes.

        :param make: whether to create a missing one, if the configuration allows it.
        :raises OutletError: it is missing, or is not fit.
        """
        spec = self._spec
        config: dict[str, Any] = {
            "subjects": [spec.subjects],
            "max_age": spec.max_age * NANOSECONDS,
            "max_bytes": spec.max_bytes or -1,
            "discard": "old",
            "duplicate_window": _DUPLICATE_WINDOW,
            "allow_atomic": True,  # unknown to servers before 2.12, which drop it
        }
        info = await self._find(spec.changes, config if make else None)
        _require(spec.changes, wrong_with_changes(info.config, spec))
        return info

    async def find_model(self, *, make: bool) -> LogStreamInfo:
        """The stream of the current model.

        :param make: as for :meth:`find_changes`.
        :raises OutletError: it is missing, or is not fit.
        """
        spec = self._spec
        config = {"mirror": {"name": spec.changes}, "max_msgs_per_subject": 1}
        info = await self._find(spec.model, config if make else None)
        _require(spec.model, wrong_with_model(info.config, spec))
        return info

    async def changes(self) -> LogStreamInfo:
        """The stream of changes as it is now.

        :raises OutletError: the server refuses to say it.
        """
        return await self._info(self._spec.changes)

    async def model(self) -> LogStreamInfo:
        """The stream of the current model as it is now.

        :raises OutletError: the server refuses to say it.
        """
        return await self._info(self._spec.model)

    async def message_sizes(self) -> list[int]:
        """The ``max_msg_size`` of the streams that exist."""
        names = (self._spec.changes, self._spec.model)
        infos = [await self._api.ask(f"STREAM.INFO.{name}", None, LogStreamInfo) for name in names]
        return [info.config.max_msg_size for info in infos]

    async def headers_at(self, sequence: int) -> Mapping[str, str] | None:
        """The headers of a message, from the changes or, where it was discarded there, from the model.

        :returns: None: neither has it.
        :raises OutletError: the server refuses to say it.
        """
        for stream in (self._spec.changes, self._spec.model):
            message = await self._message(stream, {"seq": sequence})
            if message is not None:
                return dict(_headers(message.hdrs))
        return None

    async def last_headers(self, subjects: str) -> Mapping[str, str] | None:
        """The headers of the last message that the model has; None: it has none.

        :raises OutletError: the server refuses to say it.
        """
        message = await self._message(self._spec.model, {"last_by_subj": subjects})
        return None if message is None else dict(_headers(message.hdrs))

    async def snapshot_in(self, stream: str, begin: str, end: str) -> SnapshotMarkers:
        """Where one of the streams has the markers of its last snapshot.

        :param begin: subject of the one, and end: of the other.
        :raises OutletError: the server refuses to say it.
        """
        # The end first: so both are of one snapshot, or its end is the earlier one.
        last, first = [await self._message(stream, {"last_by_subj": subject}) for subject in (end, begin)]
        return SnapshotMarkers(first.seq if first is not None else 0, last.seq if last is not None else 0)

    async def first_of_model(self, model: LogStreamInfo) -> FirstMessage | None:
        """The first message of the current model; None: it has none.

        :raises OutletError: the server refuses to say it.
        """
        request = {"seq": model.state.first_seq}
        first = await self._message(self._spec.model, request) if model.state.messages else None
        if first is None:
            return None
        origin = await self._message(self._spec.changes, request)
        return FirstMessage(first.time, origin.time if origin is not None else None)

    async def purge_model(self, before: int | None = None) -> None:
        """Remove what the model has before a sequence; None: everything.

        :raises OutletError: the server refuses.
        """
        await self._change_model("PURGE", None if before is None else {"seq": before})

    async def delete_model(self) -> None:
        """Remove the stream of the current model.

        :raises OutletError: the server refuses.
        """
        await self._change_model("DELETE", None)

    async def _change_model(self, what: str, request: dict[str, Any] | None) -> None:
        answer = await self._api.ask(f"STREAM.{what}.{self._spec.model}", request, JetStreamAnswer)
        if answer.error is not None:
            raise _refused(self._spec.model, answer.error)

    async def _find(self, name: str, config: dict[str, Any] | None) -> LogStreamInfo:
        """:param config: to make it with; None: it must exist."""
        info = await self._api.ask(f"STREAM.INFO.{name}", None, LogStreamInfo)
        is_missing = info.error is not None and info.error.err_code == NO_STREAM
        if is_missing and self._spec.create and config is not None:
            request = {
                "name": name,
                "retention": "limits",
                "storage": "file",
                "num_replicas": self._spec.replicas,
                "allow_msg_ttl": True,  # unknown to servers before 2.11, which drop it
            } | config
            info = await self._api.ask(f"STREAM.CREATE.{name}", request, LogStreamInfo)
            if info.error is None:
                info.made = True
            elif info.error.err_code == STREAM_EXISTS:
                return await self._info(name)
        if info.error is not None:
            raise _refused(name, info.error)
        return info

    async def _info(self, name: str) -> LogStreamInfo:
        info = await self._api.ask(f"STREAM.INFO.{name}", None, LogStreamInfo)
        if info.error is not None:
            raise _refused(name, info.error)
        return info

    async def _message(self, stream: str, request: dict[str, Any]) -> _LoggedMessage | None:
        answer = await self._api.ask(f"STREAM.MSG.GET.{stream}", request, _MessageAnswer)
        if answer.error is None:
            return answer.message
        if answer.error.code == NOT_FOUND and answer.error.err_code != NO_STREAM:
            return None
        raise _refused(stream, answer.error)


def wrong_with_changes(config: LogStreamConfig, spec: LogStreamSpec) -> list[str]:
    """Why a stream cannot be that of the changes, each reason in a phrase."""
    wrong = _wrong_with_both(config)
    if config.subjects != [spec.subjects]:
        wrong.append(f"subjects are {', '.join(config.subjects) or 'not set'}, not {spec.subjects}")
    if config.max_msgs_per_subject > 0:
        wrong.append(f"max_msgs_per_subject is {config.max_msgs_per_subject}, so changes would be missing")
    if config.mirror is not None:
        wrong.append("it is a mirror")
    return wrong


def wrong_with_model(config: LogStreamConfig, spec: LogStreamSpec) -> list[str]:
    """Why a stream cannot be that of the current model, each reason in a phrase."""
    wrong = _wrong_with_both(config)
    if config.mirror != MirrorConfig(name=spec.changes):
        wrong.append(f"it is no mirror of all of {spec.changes}")
    if config.max_msgs_per_subject != 1:
        wrong.append(f"max_msgs_per_subject is {config.max_msgs_per_subject}, not 1")
    if config.deny_purge:
        wrong.append("deny_purge is set")
    limits = {"max_age": config.max_age, "max_msgs": config.max_msgs, "max_bytes": config.max_bytes}
    wrong += [f"{name} is set, so entities would be missing" for name, limit in limits.items() if limit > 0]
    return wrong


def _wrong_with_both(config: LogStreamConfig) -> list[str]:
    wrong = []
    if config.retention != "limits":
        wrong.append(f"retention is {config.retention}, not limits")
    if config.discard != "old":
        wrong.append(f"discard is {config.discard}, not old")
    wrong += [
        f"{name} is set"
        for name in ("no_ack", "sealed", "sources", "subject_transform", "subject_delete_marker_ttl")
        if getattr(config, name)
    ]
    return wrong


def _require(stream: str, wrong: list[str]) -> None:
    if wrong:
        raise OutletError(f"the stream {stream} is not fit: {'; '.join(wrong)}")


def _refused(stream: str, error: JetStreamError) -> OutletError:
    if error.err_code == NO_STREAM:
        return OutletError(f"the stream {stream} does not exist")
    return OutletError(f"the stream {stream} cannot be used: {error}")


def _headers(encoded: str) -> Iterator[tuple[str, str]]:
    """The headers of a stored message, which the server gives in base64."""
    for line in base64.b64decode(encoded).decode(errors="replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            yield name, value.strip()
