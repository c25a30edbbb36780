# SPDX-License-Identifier: Apache-2.0
"""What an attempt says of its answer: Retry-After, and details that are short and printable."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.webhooks.deliveries import Attempt, bounded
from watcher_sync.extensions.webhooks.sender import retry_after_of, status_detail

NOW = 1_700_000_000.0
"""Tue, 14 Nov 2023 22:13:20 GMT."""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("86401", 86400),
        ("9" * 400, 86400),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0),
        ("Tue, 14 Nov 2033 22:13:00 GMT", 86400),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Tue, 99 Nov 2023 22:14:20 GMT", None),
        ("Tue, 14 Nov 99999 22:14:20 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_bounded(value: str | None, seconds: float | None) -> None:
    assert retry_after_of(503, value, now=NOW) == seconds
    assert retry_after_of(429, value, now=NOW) == seconds


@pytest.mark.parametrize("code", [0, 200, 301, 404, 500, 502])
def test_retry_after_of_another_status_does_not_count(code: int) -> None:
    assert retry_after_of(code, "120", now=NOW) is None


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        (200, "HTTP 200 OK"),
        (302, "HTTP 302 Found: redirects are not followed"),
        (418, "HTTP 418 I'm a Teapot"),
        (599, "HTTP 599"),
    ],
)
def test_the_detail_of_an_answer_has_the_standard_phrase(code: int, detail: str) -> None:
    assert status_detail(code) == detail


def test_a_detail_is_printable_and_at_most_200_characters() -> None:
    assert bounded("a\r\nb\x1b[31m\u202e") == "a\\r\\nb\\u001b[31m\\u202e"
    assert len(bounded("\n" * 500)) == 200


@pytest.mark.parametrize(
    ("code", "ok", "gone"),
    [
        (0, False, False),
        (199, False, False),
        (200, True, False),
        (299, True, False),
        (300, False, False),
        (410, False, True),
    ],
)
def test_only_2xx_is_success_and_only_410_is_gone(code: int, ok: bool, gone: bool) -> None:
    attempt = Attempt(code, "", 0.0)

    assert (attempt.ok, attempt.gone) == (ok, gone)
