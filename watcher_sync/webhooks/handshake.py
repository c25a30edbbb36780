# SPDX-License-Identifier: Apache-2.0
"""The consent of a receiver before the first delivery.

A sender asks with an OPTIONS request which names its origin. A receiver that does not know the protocol does not
answer with the origin, and gets no events. Consent by a later call-back is not supported.

Source: CloudEvents, HTTP 1.1 Web Hooks for Event Delivery 1.0.2, section 4 (abuse protection).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from watcher_sync.webhooks.attempts import Attempt

_ANY: Final = "*"
_MAX_RATE_DIGITS: Final = 9


class OptionsSender(Protocol):
    """What the handshake needs of a sender."""

    async def options(self, url: str, headers: Mapping[str, str]) -> tuple[Attempt, Mapping[str, str]]:
        """Sends an OPTIONS request: the result, and the headers of the answer with names in any case."""
        ...


class Grant(msgspec.Struct, frozen=True):
    """The answer of a receiver: consent or refusal."""

    granted: bool
    reason: str
    """Why the receiver refused, in printable words without its text; empty with consent."""
    rate: int | None
    """Requests per minute that the receiver accepts; None if it sets no limit, or refused."""
    attempt: Attempt
    """The request itself."""


async def validate(sender: OptionsSender, url: str, *, origin: str, rate: int | None) -> Grant:
    """Asks the receiver at the URL whether it accepts requests from the origin.

    :param origin: the DNS name of the sending system.
    :param rate: requests per minute that are asked for; None if the request does not name a rate.
    """
    headers = {"WebHook-Request-Origin": origin}
    if rate is not None:
        headers["WebHook-Request-Rate"] = str(rate)
    attempt, answer = await sender.options(url, headers)
    reason, accepted_rate = _judge(attempt, answer, origin, rate)
    return Grant(granted=not reason, reason=reason, rate=accepted_rate, attempt=attempt)


def _judge(attempt: Attempt, answer: Mapping[str, str], origin: str, asked_rate: int | None) -> tuple[str, int | None]:
    """The reason of a refusal, or an empty text and the rate."""
    if not attempt.ok:
        return attempt.detail, None
    allowed_origin = answer.get("WebHook-Allowed-Origin", "").strip()
    if not allowed_origin:
        return "the answer has no WebHook-Allowed-Origin", None
    if allowed_origin != _ANY and allowed_origin.lower() != origin.lower():
        return "WebHook-Allowed-Origin names another origin", None
    text = answer.get("WebHook-Allowed-Rate", "").strip()
    if not text:
        # The specification requires the header when a rate was asked for. Without it, that rate is the limit.
        return "", asked_rate
    if text == _ANY:
        return "", None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_RATE_DIGITS) or int(text) == 0:
        return "WebHook-Allowed-Rate is neither a number from 1 nor *", None
    return "", int(text)
