# SPDX-License-Identifier: Apache-2.0
"""What a client says in one stream, and whether it is in order. Pure.

The first request subscribes to a topic. Later requests refresh the token, answer pings or report the state of an agent.
Agents of the Axway dialect may omit the type of a request: then it is a refresh. Their tokens begin with ``Bearer``.
"""

from __future__ import annotations

from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from watcher_sync.extensions.watch.endings import invalid_argument, shown
from watcher_sync.extensions.watch.wire import events_pb2

PING: Final = "ping"
BOOKMARK: Final = "bookmark"
RESUME: Final = "resume"

_MAX_CAPABILITIES: Final = 64
_BEARER: Final = "bearer "


class Subscribe(msgspec.Struct, frozen=True):
    """The first request."""

    self_link: str
    token: str
    """Empty: the token of the call's metadata counts."""
    capabilities: frozenset[str]
    resume_after: int | None
    """The last sequence that the client has; None: the server decides."""


class Refresh(msgspec.Struct, frozen=True):
    """A new token."""

    token: str


class PingAnswer(msgspec.Struct, frozen=True):
    """The answer to a ping."""

    ping_id: str


class AgentReport(msgspec.Struct, frozen=True):
    """The state of an agent. The server has no use for it."""


ClientMessage = Subscribe | Refresh | PingAnswer | AgentReport


class Conversation:
    """The requests of one stream, in order."""

    def __init__(self) -> None:
        self._self_link = ""

    @property
    def has_subscribed(self) -> bool:
        """Whether the first request has come."""
        return bool(self._self_link)

    def receive(self, data: bytes) -> ClientMessage:
        """Read the next request.

        :param data: a serialised Request.
        :raises StreamEnd: INVALID_ARGUMENT: it is no request, or out of order.
        """
        try:
            request = events_pb2.Request.FromString(data)
        except DecodeError:
            raise invalid_argument("the message is no Request") from None
        if request.HasField("requestType"):
            if request.requestType == events_pb2.AGENT_STATUS:
                return AgentReport()
            if request.requestType == events_pb2.PING_RESPONSE:
                return PingAnswer(request.pingResponse.id)
            if request.requestType != events_pb2.TOKEN_REFRESH:
                return AgentReport()  # of a later version of the dialect
        return self._refresh(request) if self._self_link else self._subscribe(request)

    def _subscribe(self, request: events_pb2.Request) -> Subscribe:
        if not request.selfLink:
            raise invalid_argument("the first request needs a selfLink")
        if len(request.capabilities) > _MAX_CAPABILITIES:
            raise invalid_argument(f"a request may have {_MAX_CAPABILITIES} capabilities")
        capabilities = frozenset(request.capabilities)
        after = None
        if RESUME in capabilities and request.HasField("resumeAfterSequence"):
            after = request.resumeAfterSequence
            if after < 0:
                raise invalid_argument("resumeAfterSequence is negative")
        self._self_link = request.selfLink
        return Subscribe(request.selfLink, without_scheme(request.token), capabilities, after)

    def _refresh(self, request: events_pb2.Request) -> Refresh:
        if request.selfLink != self._self_link:
            raise invalid_argument(f"the stream is of {shown(self._self_link)}; open another stream for another topic")
        return Refresh(without_scheme(request.token))


def without_scheme(token: str) -> str:
    """Return a token without its authentication scheme, which RFC 9110 compares without case; empty: there is none."""
    return token[len(_BEARER) :].strip() if token.lower().startswith(_BEARER) else token.strip()
