# SPDX-License-Identifier: Apache-2.0
"""The stream of changes and the stream of the current model: made or verified, and what they have.

The model is a mirror of the changes with one message per subject. The server copies, and a message has the same
sequence in both. So a reader takes the model up to a sequence, and then the changes after it.

Guaranteed: an existing stream is never changed. An error names everything that is wrong with it.

Source: NATS JetStream wire API reference. For the event loop's thread only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from watcher_sync.log.base import OutletError
from watcher_sync.log.nats_jetstream.settings import LogStreamSpec
from watcher_sync.sources.nats.api import JetStreamAnswer, JetStreamApi, JetStreamError
from watcher_sync.sources.nats.stream import NANOSECONDS

_NO_STREAM: Final = 10059
_STREAM_EXISTS: Final = 10058
_NOT_FOUND: Final = 404
_DUPLICATE_WINDOW: Final = NANOSECONDS
"""For as long the server remembers message ids. The fence prevents repeats, so a long time would cost memory only."""


class MirrorConfig(msgspec.Struct, frozen=True):
    """What a stream is a copy of."""

    name: str = ""
    filter_subject: str = ""
    opt_start_seq: int = 0
    opt_start_time: str = ""
    subject_transforms: Any = None


class LogStreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a stream's configuration that the driver depends on."""

    subjects: list[str] = []
    retention: str = "limits"
    discard: str = "old"
    max_age: int = 0
    max_msgs: int = -1
    max_bytes: int = -1
    max_msgs_per_subject: int = -1
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


class LogStreamInfo(JetStreamAnswer, kw_only=True):
    """A stream."""

    config: LogStreamConfig = LogStreamConfig()
    state: LogStreamState = LogStreamState()
    made: bool = False
    """Whether it was created just now."""

    @property
    def deletion_ttl(self) -> int:
        """Seconds after which a deletion may leave the stream; 0: the server cannot, or shall not."""
        return self.config.max_age // NANOSECONDS if self.config.allow_msg_ttl else 0


class SnapshotMarkers(NamedTuple):
    """The sequences of the last begin and the last end of a snapshot; 0: there is none."""

    begin: int
    end: int

    @property
    def is_complete(self) -> bool:
        """Whether the stream has all of a snapshot."""
        return 0 < self.begin < self.end


class _LoggedMessage(msgspec.Struct):
    seq: int = 0
    hdrs: str = ""


class _MessageAnswer(JetStreamAnswer, kw_only=True):
    message: _LoggedMessage = msgspec.field(default_factory=_LoggedMessage)


class LogStreams:
    """The administration of the two streams over one connection.

    Every method raises :class:`~watcher_sync.sources.session.NotReady` when JetStream does not answer.
    """

    def __init__(self, api: JetStreamApi, spec: LogStreamSpec) -> None:
        self._api = api
        self._spec = spec

    async def find_changes(self) -> LogStreamInfo:
        """The stream of changes.

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
        info = await self._find(spec.changes, config)
        _require(spec.changes, wrong_with_changes(info.config, spec))
        return info

    async def find_model(self) -> LogStreamInfo:
        """The stream of the current model.

        :raises OutletError: it is missing, or is not fit.
        """
        spec = self._spec
        info = await self._find(spec.model, {"mirror": {"name": spec.changes}, "max_msgs_per_subject": 1})
        _require(spec.model, wrong_with_model(info.config, spec))
        return info

    async def changes(self) -> LogStreamState:
        """What the stream of changes has now.

        :raises OutletError: the server refuses to say it.
        """
        return (await self._info(self._spec.changes)).state

    async def model(self) -> LogStreamState:
        """What the stream of the current model has now.

        :raises OutletError: the server refuses to say it.
        """
        return (await self._info(self._spec.model)).state

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

    async def snapshot_in_model(self, begin: str, end: str) -> SnapshotMarkers:
        """Where the model has the markers of a snapshot.

        :param begin: subject of the one, and end: of the other.
        :raises OutletError: the server refuses to say it.
        """
        found = [await self._message(self._spec.model, {"last_by_subj": subject}) for subject in (begin, end)]
        return SnapshotMarkers(*(message.seq if message is not None else 0 for message in found))

    async def purge_model(self, before: int) -> None:
        """Remove what the model has before a sequence.

        :raises OutletError: the server refuses.
        """
        answer = await self._api.ask(f"STREAM.PURGE.{self._spec.model}", {"seq": before}, JetStreamAnswer)
        if answer.error is not None:
            raise _refused(self._spec.model, answer.error)

    async def _find(self, name: str, config: dict[str, Any]) -> LogStreamInfo:
        info = await self._api.ask(f"STREAM.INFO.{name}", None, LogStreamInfo)
        if info.error is not None and info.error.err_code == _NO_STREAM and self._spec.create:
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
            elif info.error.err_code == _STREAM_EXISTS:
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
        if answer.error.code == _NOT_FOUND and answer.error.err_code != _NO_STREAM:
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
    if error.err_code == _NO_STREAM:
        return OutletError(f"the stream {stream} does not exist")
    return OutletError(f"the stream {stream} cannot be used: {error}")


def _headers(encoded: str) -> Iterator[tuple[str, str]]:
    """The headers of a stored message, which the server gives in base64."""
    for line in base64.b64decode(encoded).decode(errors="replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            yield name, value.strip()
