# SPDX-License-Identifier: Apache-2.0
"""The limits and times of the server, from the options of ``[outlet_watch]``."""

from __future__ import annotations

import msgspec

EXPIRY_GRACE_SECONDS = 30.0
"""How long a stream outlasts its token: the next token may be under way."""


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8776
    max_streams: int = 10_000
    max_streams_per_identity: int = 256
    max_queued_events: int = 1_000
    max_request_bytes: int = 65_536
    first_request_timeout: float = 360.0
    ping_interval: float = 30.0
    min_keepalive_interval: float = 10.0
    """The shortest interval of a client's HTTP/2 pings while no stream is open."""
    topic_poll_interval: float = 0.5
    token_retry_interval: float = 5.0
    """Between two checks of a token while the identity service is unavailable."""
    expiry_grace: float = EXPIRY_GRACE_SECONDS
    reflection: bool = True

    @property
    def max_unsubscribed(self) -> int:
        """The streams without a subscription: half of all, so clients without a token leave room for others."""
        return (self.max_streams + 1) // 2
