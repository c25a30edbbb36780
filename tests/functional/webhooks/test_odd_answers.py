# SPDX-License-Identifier: Apache-2.0
"""The status line of an answer decides, and nothing after it: bytes that no parser of HTTP accepts change no result."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.functional.webhooks.receivers import Answer, Receiver, closing, receiving, sender, status
from tests.functional.webhooks.test_sender import BODY, HEADERS, OK, attempt_at, run_quickly, tls_pair
from tests.waiting import eventually
from watcher_sync.extensions.webhooks import sender as sender_module


@pytest.fixture(autouse=True, scope="module")
def hasty() -> Iterator[None]:
    """The sender waits only shortly for the rest of an answer."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sender_module, "_REST_SECONDS", 0.05)
        yield


ODD = {
    "a header of 9 KB": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 9_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "a header of 100 KB": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "300 headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"Content-Length: 0\r\n\r\n",
    "data after Connection: close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokmore",
    "a space before a colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "one length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
    "an encoding that it does not have": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
    "204 with a body": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
    "205 with a body": b"HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nok",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nok",
    "an unknown version": b"HTTP/3.7 200 OK\r\n\r\n",
    "http in lower case": b"http/1.1 200 ok\r\ncontent-length: 0\r\n\r\n",
    "an empty line before it": b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "lines that end with LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "lines that end with CR": b"HTTP/1.1 200 OK\rContent-Length: 2\r\rok",
    "a folded header": b"HTTP/1.1 200 OK\r\nx: y\r\n z\r\nContent-Length: 0\r\n\r\n",
    "a header in Latin-1": b"HTTP/1.1 200 OK\r\nx: \xe9\r\nContent-Length: 0\r\n\r\n",
    "a reason in UTF-8": "HTTP/1.1 200 D'accord, c'est livré\r\nContent-Length: 0\r\n\r\n".encode(),
    "NUL": b"HTTP/1.1 200 OK\r\nx: \0\r\nContent-Length: 0\r\n\r\n",
    "a header without a name": b"HTTP/1.1 200 OK\r\n: y\r\nContent-Length: 0\r\n\r\n",
    "a line that is no header": b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n",
    "no header and an end": b"HTTP/1.1 200 OK\r\n",
    "half a header and an end": b"HTTP/1.1 200 OK\r\nContent-",
    "its last two answers": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    "a hundred interim answers": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100
    + b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "an odd interim answer": b"HTTP/1.1 100 Continue\r\nx : y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_an_answer_with_a_status_line_of_success_is_a_delivery(text: bytes) -> None:
    result, receiver = attempt_at(closing(text))

    assert (result.ok, len(receiver.requests)) == (True, 1), result.detail


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_the_request_after_an_odd_answer_gets_its_own_answer(text: bytes) -> None:
    async def run() -> None:
        async with receiving(first_then(text, status(503, "Retry-After: 7"))) as receiver, sender() as ours:
            assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            second = await ours.post(receiver.url, HEADERS, BODY)
            assert (second.code, second.retry_after, len(receiver.requests)) == (503, 7.0, 2)

    run_quickly(run())


@pytest.mark.parametrize("forged", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"ok"])
@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n"])
@pytest.mark.parametrize("is_read", [True, False])
def test_what_arrives_after_an_answer_is_not_the_next_answer(first: bytes, forged: bytes, is_read: bool) -> None:
    """:param is_read: whether the event loop has read it before the next request begins."""

    async def run() -> None:
        writers: list[asyncio.StreamWriter] = []
        async with receiving(first_then(first, status(503), writers=writers)) as receiver, sender() as ours:
            assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            writers[0].write(forged)  # at once: it is in the socket of the sender when this returns
            if is_read:
                await eventually(lambda: not receiver.open)
            second = await ours.post(receiver.url, HEADERS, BODY)
            assert (second.code, receiver.connections, len(receiver.requests)) == (503, 2, 2)

    run_quickly(run())


def test_a_status_that_has_no_body_but_declares_one_ends_its_connection() -> None:
    text = b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n"
    result, receiver = attempt_at(first_then(text), closes=True)

    assert (result.code, receiver.open) == (204, 0)


@pytest.mark.parametrize("with_tls", [False, True])
@pytest.mark.parametrize("text", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"])
def test_a_connection_that_is_reset_after_the_status_line_is_a_delivery(text: bytes, with_tls: bool) -> None:
    def resetting(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await receiver.request(reader)
            writer.write(text)
            await writer.drain()
            reset(writer)

        return answer

    async def run() -> None:
        theirs, trusting = tls_pair("127.0.0.1") if with_tls else (None, None)
        async with receiving(resetting, tls=theirs) as receiver, sender(ssl_context=trusting) as ours:
            url = receiver.url.replace("http:", "https:") if with_tls else receiver.url
            assert (await ours.post(url, HEADERS, BODY)).code == 200

    run_quickly(run())


@pytest.mark.parametrize("reads", [0, 1])
def test_a_receiver_that_answers_before_it_has_read_the_request_has_accepted_it(reads: int) -> None:
    """As a listener that writes a fixed answer at once, and ends."""

    def early(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(reads)
            writer.write(OK)
            await writer.drain()

        return answer

    async def run() -> None:
        async with receiving(early) as receiver, sender() as ours:
            assert (await ours.post(receiver.url, HEADERS, b"x" * 1_000_000)).code == 200

    run_quickly(run())


@pytest.mark.parametrize(
    ("text", "code", "retry_after"),
    [
        (b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nx : y\r\n\r\n", 429, 7.0),
        (b"HTTP/1.1 429 No\r\nx : y\r\nRetry-After : 7\r\n\r\n", 429, 7.0),
        (b"HTTP/1.1 503 No\nnothing\nretry-after:7\n\n", 503, 7.0),
        (b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nRetry-After: 9\r\n", 503, 7.0),
        (b"HTTP/1.1 503 No\r\nRetry-After: 7", 503, None),  # more digits may have followed
        (b"HTTP/1.1 503 No\r\nContent-Length : 0\r\n\r\nRetry-After: 7\r\n", 503, None),
        (b"HTTP/1.1 503 Retry-After: 7\r\nx : y\r\n\r\n", 503, None),
        (b"HTTP/1.1 429 No\r\nx: " + b"y" * 9_000 + b"\r\nRetry-After: 7\r\n\r\n", 429, 7.0),
        (b"HTTP/1.1 103 Hints\r\nRetry-After: 7\r\n\r\nHTTP/1.1 503 No\r\nx : y\r\n\r\n", 503, None),
        (b"HTTP/1.1 410 Gone\r\nx : y\r\n\r\n", 410, None),
        (b"HTTP/1.1 301 Moved\r\nLocation : /\r\n\r\n", 301, None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nx : y\r\n\r\n", 101, None),
        (b"HTTP/1.1 999 Denied\r\nx : y\r\n\r\n", 999, None),
    ],
)
def test_any_other_status_counts_too_and_retry_after_as_far_as_it_was_read(
    text: bytes, code: int, retry_after: float | None
) -> None:
    result, _ = attempt_at(closing(text))

    assert (result.ok, result.code, result.retry_after) == (False, code, retry_after)


JUNK = st.lists(
    st.binary(max_size=40)
    | st.sampled_from(
        [
            b"\r\n",
            b"\r\n\r\n",
            b"\n\n",
            OK,
            b"HTTP/1.1 200 OK\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
            b"Connection: close\r\n",
            b"Upgrade: websocket\r\n",
            b"x" * 20_000,
        ]
    ),
    max_size=6,
)


@settings(max_examples=150)
@given(st.integers(200, 299), st.sampled_from([b" ", b" OK\r\n", b"\r\n", b"\n"]), JUNK, st.booleans())
@example(200, b"\r\n", [b"\r\n", b"HTT"], False)
def test_whatever_follows_a_status_of_success_it_is_one_delivery(
    code: int, end: bytes, junk: list[bytes], closes: bool
) -> None:
    """And the next request, for which the receiver has another answer, gets that one."""

    async def run() -> None:
        written = asyncio.Event()

        def answer_of(receiver: Receiver) -> Answer:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await receiver.request(reader)
                first = len(receiver.requests) == 1
                try:
                    for part in [b"HTTP/1.1 %d" % code + end, *junk] if first else [status(503)]:
                        writer.write(part)
                        await writer.drain()
                        await asyncio.sleep(0)
                    if closes:
                        writer.close()
                        await writer.wait_closed()
                finally:
                    written.set()
                if not closes:
                    await answer(reader, writer)

            return answer

        async with receiving(answer_of) as receiver, sender() as ours:
            first = await ours.post(receiver.url, HEADERS, BODY)
            assert (first.ok, first.code) == (True, code), first.detail
            await written.wait()
            second = await ours.post(receiver.url, HEADERS, BODY)
            assert (second.code, len(receiver.requests)) == (503, 2), second.detail

    run_quickly(run())


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection by RST, without a notice of TLS."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def first_then(*texts: bytes, writers: list[asyncio.StreamWriter] | None = None) -> Callable[[Receiver], Answer]:
    """Answers the requests of all connections with these bytes in turn, and closes no connection.

    :param writers: gets that of each connection.
    """

    def make(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if writers is not None:
                writers.append(writer)
            while True:
                await receiver.request(reader)
                writer.write(texts[len(receiver.requests) - 1])
                await writer.drain()

        return answer

    return make
