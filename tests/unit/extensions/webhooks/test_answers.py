# SPDX-License-Identifier: Apache-2.0
"""The status of an answer follows from its bytes, and not from the parts in which they arrive."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.extensions.webhooks.answers import Answer

INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


def answer_of(parts: list[bytes], *, max_bytes: int = 16_384) -> tuple[int, str | None, int]:
    """The status, Retry-After, and how often the status was reported."""
    reports: list[None] = []
    answer = Answer(max_bytes, lambda: reports.append(None))
    for part in parts:
        answer.take(part)
    return answer.code, answer.header(b"retry-after"), len(reports)


@given(
    st.lists(st.sampled_from([INTERIM, b"\r\n", b"HTTP/1.1 100 Continue\n\n", b"\0"]), max_size=3),
    st.sampled_from([b"HTTP/1.1 200 OK\r\n", b"http/2 429\n", b"HTTP/1.0 503  No\r\n", b"HTTP/1.1 2000\r\n", b""]),
    st.lists(st.sampled_from([b"Retry-After: 7\r\n", b"x : y\r\n", b"\r\n", b"HTTP/1.1 500 No\r\n"]), max_size=3),
    st.data(),
)
def test_an_answer_is_the_same_in_any_parts(
    before: list[bytes], status_line: bytes, after: list[bytes], data: st.DataObject
) -> None:
    text = b"".join([*before, status_line, *after])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(text)])]

    assert answer_of(parts) == answer_of([text])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"HTTP/1.1 200", 0),  # another digit may follow
        (b"HTTP/1.1 200\r", 200),
        (b"HTTP/1.1 2000 \r\n", 0),
        (b"HTTP/1.1 020 \r\n", 0),
        (b"HTTP/1.1 -20 \r\n", 0),
        (b"HTTP 200 OK\r\n", 0),
        (b"ok HTTP/1.1 200 OK\r\n", 0),
        (INTERIM * 3 + b"HTTP/1.1 202 \r\n", 202),
        (b"HTTP/1.1 100 Continue\r\nHTTP/1.1 200 OK\r\n", 0),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
        (b"\0\0\x12\4\0\0\0\0\0", 0),
    ],
)
def test_a_status_line_is_a_version_and_three_digits(text: bytes, code: int) -> None:
    assert answer_of([text])[0] == code


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 ", b"HTTP/1.1 100 ", b"HTTP/1.1 503 No\r\n"])
@pytest.mark.parametrize("part", [b"\r\n", b" ", b"a", b"Retry-After: ", INTERIM])
def test_no_answer_holds_a_thread(begin: bytes, part: bytes) -> None:
    text = begin + part * (16_384 // len(part))
    began = time.process_time()
    answer_of([text[place : place + 1] for place in range(len(text))])
    assert time.process_time() - began < 2.0
