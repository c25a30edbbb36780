# SPDX-License-Identifier: Apache-2.0
"""The consent of a receiver before the first delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from multidict import CIMultiDict

from watcher_sync.webhooks.attempts import Attempt
from watcher_sync.webhooks.handshake import Grant, validate

ORIGIN = "outlet.example.com"


class Answering:
    """A sender whose receiver answers OPTIONS in one way."""

    def __init__(self, code: int, headers: Mapping[str, str]) -> None:
        self.answer = Attempt(code, f"HTTP {code}", 0.1), CIMultiDict(headers)
        self.asked: Mapping[str, str] = {}

    async def options(self, url: str, headers: Mapping[str, str]) -> tuple[Attempt, Mapping[str, str]]:
        assert url == "https://example.com/x"
        self.asked = headers
        return self.answer


def asked(sender: Answering, *, rate: int | None = None) -> Grant:
    return asyncio.run(validate(sender, "https://example.com/x", origin=ORIGIN, rate=rate))


def test_the_request_names_the_origin_and_the_rate() -> None:
    sender = Answering(200, {})

    asked(sender)
    assert sender.asked == {"WebHook-Request-Origin": ORIGIN}
    asked(sender, rate=120)
    assert sender.asked == {"WebHook-Request-Origin": ORIGIN, "WebHook-Request-Rate": "120"}


@pytest.mark.parametrize("origin", ["*", ORIGIN, ORIGIN.upper(), f" {ORIGIN} "])
@pytest.mark.parametrize("code", [200, 204])
def test_a_receiver_that_names_our_origin_or_any_consents(origin: str, code: int) -> None:
    grant = asked(Answering(code, {"webhook-allowed-origin": origin}))

    assert (grant.granted, grant.reason, grant.rate) == (True, "", None)


@pytest.mark.parametrize(
    ("text", "wanted", "rate"),
    [("120", None, 120), ("60", 120, 60), ("*", 120, None), ("*", None, None), ("", 120, 120), ("", None, None)],
)
def test_the_allowed_rate_is_a_number_per_minute_or_any(text: str, wanted: int | None, rate: int | None) -> None:
    headers = {"WebHook-Allowed-Origin": "*"} | ({"WebHook-Allowed-Rate": text} if text else {})

    grant = asked(Answering(200, headers), rate=wanted)

    assert (grant.granted, grant.rate) == (True, rate)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "1" * 5000, "٣"])
def test_a_rate_that_is_none_is_a_refusal(text: str) -> None:
    grant = asked(Answering(200, {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": text}))

    assert (grant.granted, grant.rate) == (False, None)
    assert "WebHook-Allowed-Rate" in grant.reason


@pytest.mark.parametrize(
    ("code", "headers", "reason"),
    [
        (200, {}, "no WebHook-Allowed-Origin"),
        (200, {"WebHook-Allowed-Origin": ""}, "no WebHook-Allowed-Origin"),
        (200, {"WebHook-Allowed-Origin": "other.example.com"}, "another origin"),
        (200, {"WebHook-Allowed-Origin": f"x.{ORIGIN}"}, "another origin"),
        (405, {"WebHook-Allowed-Origin": "*"}, "HTTP 405"),
        (302, {"WebHook-Allowed-Origin": "*"}, "HTTP 302"),
        (0, {}, "HTTP 0"),
    ],
)
def test_all_else_is_a_refusal_with_its_reason(code: int, headers: dict[str, str], reason: str) -> None:
    grant = asked(Answering(code, headers))

    assert not grant.granted
    assert reason in grant.reason
    assert grant.attempt.code == code
