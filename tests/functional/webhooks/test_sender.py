# SPDX-License-Identifier: Apache-2.0
"""One request to receivers of every kind: what they get, and what the sender says of their answers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trustme

from tests.functional.webhooks.receivers import (
    LOOPBACK,
    Answer,
    Names,
    Receiver,
    answering,
    closing,
    open_settings,
    receiving,
    repeating,
    sender,
    silent,
    status,
    unused_port,
)
from tests.services.servers import free_port
from tests.waiting import deadline, eventually
from watcher_sync.extensions.webhooks import sender as sender_module
from watcher_sync.extensions.webhooks.deliveries import Attempt
from watcher_sync.extensions.webhooks.hosts import HostGate

HEADERS = {"Content-Type": "application/json", "webhook-id": "msg_1"}
BODY = b'{"a": 1}'
OK = status(200)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of this process closes no idle connection and cuts no body: the tests count connections."""
    monkeypatch.setattr(sender_module, "_KEEPALIVE_SECONDS", 600.0)
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 60.0)


def attempt_at(kind: Callable[[Receiver], Any], *, closes: bool = False, **options: Any) -> tuple[Attempt, Receiver]:
    """Posts once to a receiver of this kind.

    :param closes: whether to wait until the connection is closed, while the sender is open.
    """

    async def run() -> tuple[Attempt, Receiver]:
        async with receiving(kind) as receiver, sender(**options) as ours:
            result = await ours.post(receiver.url, HEADERS, BODY)
            if closes:
                await eventually(lambda: not receiver.open)
            return result, receiver

    return run_quickly(run())


def run_quickly(work: Coroutine[Any, Any, Any], seconds: float = 150.0) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


def test_a_receiver_gets_one_whole_request_with_our_headers() -> None:
    result, receiver = attempt_at(answering(OK))

    assert (result.ok, result.code, result.detail, result.not_sent) == (True, 200, "HTTP 200 OK", False)
    assert 0 < result.seconds < 60
    ((first, headers, body),) = receiver.requests
    assert first == "POST /hook?token=s3cret HTTP/1.1"
    assert body == BODY
    assert headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "webhook-id": "msg_1",
        "user-agent": "watcher-sync",
        "accept-encoding": "identity",
        "accept": "*/*",
        "content-length": str(len(BODY)),
    }


def test_an_empty_and_a_large_body_arrive_whole() -> None:
    async def run() -> None:
        large = b"x" * 5_000_000
        async with receiving(answering(OK)) as receiver, sender() as ours:
            assert (await ours.post(receiver.url, HEADERS, b"")).ok
            assert (await ours.post(receiver.url, HEADERS, large)).ok
            assert [body for _, _, body in receiver.requests] == [b"", large]

    run_quickly(run())


def test_the_url_is_sent_as_it_was_written() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender() as ours:
            await ours.post(f"http://127.0.0.1:{receiver.port}/a%2Fb/../c;d?x=%41+%20&y=[1]&&z", HEADERS, BODY)
            assert receiver.requests[0][0] == "POST /a%2Fb/../c;d?x=%41+%20&y=[1]&&z HTTP/1.1"

    run_quickly(run())


def test_a_receiver_that_never_answers_costs_the_total_timeout_and_no_more() -> None:
    result, _ = attempt_at(silent, total_timeout=0.3, closes=True)

    assert (result.code, result.detail) == (0, "timed out after 0.3 seconds")
    assert 0.29 < result.seconds < 28


def test_a_receiver_that_does_not_accept_tls_costs_the_total_timeout_and_no_more() -> None:
    async def run() -> None:
        async with receiving(silent) as receiver, sender(total_timeout=0.3) as ours:
            result = await ours.post(receiver.url.replace("http:", "https:"), HEADERS, BODY)
            assert result.detail == "timed out after 0.3 seconds"

    run_quickly(run())


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(code: int) -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as other, sender() as ours:
            async with receiving(answering(status(code, f"Location: {other.url}"))) as receiver:
                result = await ours.post(receiver.url, HEADERS, BODY)
            assert (result.ok, result.code) == (False, code)
            assert "redirects are not followed" in result.detail
            assert other.connections == 0

    run_quickly(run())


@pytest.mark.parametrize(
    ("text", "code", "detail", "retry_after"),
    [
        (status(204), 204, "HTTP 204 No Content", None),
        (status(410), 410, "HTTP 410 Gone", None),
        (status(500, "Retry-After: 7"), 500, "HTTP 500 Internal Server Error", None),
        (status(429, "Retry-After: 7"), 429, "HTTP 429 Too Many Requests", 7.0),
        (status(503, "Retry-After: Tue, 14 Nov 2023 22:14:20 GMT"), 503, "HTTP 503 Service Unavailable", 60.0),
        (status(404, body=b"x" * 500), 404, "HTTP 404 Not Found", None),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, "HTTP 200 OK", None),
    ],
)
def test_an_answer_is_described_by_its_status(text: bytes, code: int, detail: str, retry_after: float | None) -> None:
    result, _ = attempt_at(closing(text), wall=lambda: 1_700_000_000.0)

    assert (result.code, result.detail, result.retry_after) == (code, detail, retry_after)


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 1000),
    ],
)
def test_an_endless_body_ends_at_once_and_its_status_counts(
    monkeypatch: pytest.MonkeyPatch, head: bytes, part: bytes
) -> None:
    # Only its size can end it: these limits are longer than the test.
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 3600.0)

    result, receiver = attempt_at(repeating(head, part), max_response_bytes=10_000, closes=True, total_timeout=3600.0)

    assert (result.code, result.detail, result.ended) == (200, "HTTP 200 OK", False)
    assert receiver.connections == 1


@pytest.mark.parametrize("code", [204, 304])
def test_every_answer_without_a_body_has_ended(code: int) -> None:
    async def run() -> None:
        async with receiving(answering(f"HTTP/1.1 {code} None\r\n\r\n".encode())) as receiver, sender() as ours:
            for _ in range(3):
                assert (await ours.post(receiver.url, HEADERS, BODY)).ended
            assert receiver.connections == 1

    run_quickly(run())


def test_an_answer_of_some_kibibytes_is_read_to_its_end_and_its_connection_used_again() -> None:
    async def run() -> None:
        async with receiving(answering(status(200, body=b"x" * 10_000))) as receiver, sender() as ours:
            for _ in range(3):
                assert (await ours.post(receiver.url, HEADERS, BODY)).ended
            assert receiver.connections == 1

    run_quickly(run())


def test_a_slow_body_ends_soon_and_its_status_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 0.2)

    # The limit of the parts of a body, 16, would end it after more than 30 seconds.
    result, _ = attempt_at(
        repeating(b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n", b"x", pause=2.0),
        closes=True,
        total_timeout=60,
    )

    assert result.code == 202
    assert result.seconds < 28


def test_a_body_in_small_parts_wakes_the_event_loop_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 50.0)
    written = 0

    def dripping(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            await receiver.request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                written += 1
                await asyncio.sleep(0.005)

        return answer

    result, _ = attempt_at(dripping, closes=True, total_timeout=60)

    assert (result.code, result.ended) == (200, False)
    assert written < 1_000  # of the 4,096 that its size permits


def test_the_total_timeout_also_ends_a_slow_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 50.0)

    result, _ = attempt_at(
        repeating(b"HTTP/1.1 202 Accepted\r\nContent-Length: 999\r\n\r\n", b"x", pause=1.0), total_timeout=4
    )

    assert result.code == 202
    assert 3.9 < result.seconds < 40


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"x-header: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nx: ", b"y"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_slow_head_does_not_outlast_the_total_timeout(head: bytes, part: bytes) -> None:
    result, _ = attempt_at(repeating(head, part, pause=0.05), total_timeout=0.3)

    assert (result.code, result.ended) == (200 if b"200" in head else 0, not head)
    assert result.seconds < 28


@pytest.mark.parametrize(
    ("head", "part", "code"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-header: " + b"y" * 1000 + b"\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nx-header: ", b"y" * 1000, 200),
        (b"HTTP/1.1 200 ", b"y" * 1000, 200),
        (b"HTTP/1.1 100 ", b"y" * 1000, 0),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0),
        (b"", b"\r\n", 0),
    ],
)
def test_an_endless_head_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, head: bytes, part: bytes, code: int
) -> None:
    # Only its size can end it: these limits are longer than the test.
    monkeypatch.setattr(sender_module, "_REST_SECONDS", 3600.0)

    result, _ = attempt_at(repeating(head, part), closes=True, total_timeout=3600.0)

    assert result.code == code
    assert code or result.detail == "the answer is not valid HTTP, or its status line does not come"


@pytest.mark.parametrize("text", [b"SSH-2.0-OpenSSH\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n"])
def test_what_is_no_http_is_no_answer(text: bytes) -> None:
    result, _ = attempt_at(closing(text))

    assert (result.code, result.detail) == (0, "the answer is not valid HTTP, or its status line does not come")


@pytest.mark.parametrize("text", [b"", b"HTTP/1.1 20", b"HTTP/1.1 200"])
def test_a_connection_that_closes_early_is_no_answer(text: bytes) -> None:
    result, receiver = attempt_at(closing(text))

    assert (result.code, result.detail) == (0, "the receiver closed the connection without an answer")
    assert receiver.connections == 1, "a request may have been received, and is not repeated at once"


def test_a_body_that_is_cut_off_does_not_change_the_status() -> None:
    result, _ = attempt_at(closing(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nxx"))

    assert result.code == 200


def test_a_refused_connection_and_an_unknown_name_are_attempts_without_an_answer() -> None:
    async def run() -> None:
        async with sender(resolver=Names()) as ours:
            with unused_port() as port:
                refused = await ours.post(f"http://127.0.0.1:{port}/?token=s3cret", HEADERS, BODY)
            unknown = await ours.post("http://nothing.example/?token=s3cret", HEADERS, BODY)
        assert (refused.code, refused.detail) == (0, "the connection was refused")
        assert (unknown.code, unknown.detail) == (0, "the name of the host was not found")

    run_quickly(run())


def test_the_names_of_the_operating_system_are_found() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender(total_timeout=100) as ours:
            found = await ours.post(f"http://localhost:{receiver.port}/", HEADERS, BODY)
            unknown = await ours.post("http://nothing.invalid/", HEADERS, BODY)
        assert found.ok
        assert unknown.detail == "the name of the host was not found"

    run_quickly(run())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://user:pw@127.0.0.1/", "credentials"),
        ("http://2130706433/", "unusual form"),
        ("http://169.254.169.254/", "link-local"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://[::1/", "host"),
        ("ftp://127.0.0.1/", "scheme"),
        ("http://127.0.0.1/\r\nx: y", "character"),
    ],
)
def test_a_url_that_no_callback_may_have_is_not_requested(url: str, reason: str) -> None:
    async def run() -> None:
        async with sender() as ours:
            result = await ours.post(url, HEADERS, BODY)
        assert result.code == 0
        assert result.detail.startswith("the URL is refused: ")
        assert reason in result.detail

    run_quickly(run())


def test_name_servers_that_do_not_answer_delay_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_of_the_server = threading.Event()
    look_up = socket.getaddrinfo
    waiting: list[str] = []

    def hanging(host: str, *rest: Any, **options: Any) -> Any:
        if str(host).startswith("hanging"):
            waiting.append(host)
            answer_of_the_server.wait(deadline(120))
        return look_up("127.0.0.1", *rest, **options)

    async def run() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", hanging)
        async with receiving(answering(OK)) as receiver, sender(total_timeout=120) as ours:
            urls = [f"http://hanging-{number}.example:{receiver.port}/" for number in range(40)]
            posts = [asyncio.create_task(ours.post(url, HEADERS, BODY)) for url in urls]
            await eventually(lambda: len(waiting) == len(urls))
            assert (await ours.post(f"http://good.example:{receiver.port}/", HEADERS, BODY)).ok
            assert len(receiver.requests) == 1
            answer_of_the_server.set()
            assert all([(await post).ok for post in posts])

    run_quickly(run())


def test_http_without_tls_is_refused_once_the_option_says_so() -> None:
    async def run() -> None:
        settings = open_settings()
        async with receiving(answering(OK)) as receiver, sender(settings) as ours:
            assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            settings.allow_http = False
            assert "only https" in (await ours.post(receiver.url, HEADERS, BODY)).detail
            assert len(receiver.requests) == 1

    run_quickly(run())


def test_a_name_that_resolves_to_an_inner_address_is_refused() -> None:
    async def run() -> None:
        names = Names(inner_example=["127.0.0.1"], mapped_example=["::ffff:127.0.0.1"], text_example=["localhost"])
        async with receiving(answering(OK)) as receiver, sender(allowed_networks=[], resolver=names) as ours:
            for name, reason in [("inner", "loopback"), ("mapped", "loopback"), ("text", "not an address")]:
                result = await ours.post(f"http://{name}.example:{receiver.port}/", HEADERS, BODY)
                assert result.code == 0
                assert result.detail.startswith("address refused: ")
                assert reason in result.detail
                assert "127.0.0.1" not in result.detail
            assert receiver.connections == 0

    run_quickly(run())


def test_a_name_that_changes_its_address_between_two_requests_is_refused() -> None:
    async def run() -> None:
        names = Names(rebinding_example=["127.0.0.2", "127.0.0.1"])
        async with (
            # A connection of another process may have the same port where systems assign ports to them.
            receiving(closing(status(200, "Connection: close")), host="127.0.0.2", port=free_port()) as outer,
            receiving(answering(OK), port=outer.port) as inner,
            sender(allowed_networks=["127.0.0.2/32"], resolver=names) as ours,
        ):
            url = f"http://rebinding.example:{outer.port}/"
            assert (await ours.post(url, HEADERS, BODY)).ok
            assert (await ours.post(url, HEADERS, BODY)).detail == "address refused: loopback"
            assert names.asked == ["rebinding.example"] * 2, "each answer of DNS is used once"
            assert (outer.connections, inner.connections) == (1, 0)

    run_quickly(run())


def test_a_pooled_connection_serves_no_other_name() -> None:
    async def run() -> None:
        names = Names(one_example=["127.0.0.1"], two_example=["127.0.0.1"])
        async with receiving(answering(OK)) as receiver, sender(resolver=names) as ours:
            for name in ("one", "two", "one"):
                assert (await ours.post(f"http://{name}.example:{receiver.port}/", HEADERS, BODY)).ok
            assert receiver.connections == 2
            assert names.asked == ["one.example", "two.example"]

    run_quickly(run())


def test_a_pooled_connection_is_not_used_after_its_network_was_withdrawn() -> None:
    async def run() -> None:
        settings = open_settings()
        names = Names(one_example=["127.0.0.1"])
        async with receiving(answering(OK)) as receiver, sender(settings, resolver=names) as ours:
            url = f"http://one.example:{receiver.port}/"
            assert (await ours.post(url, HEADERS, BODY)).ok
            settings.allowed_networks = []
            assert (await ours.post(url, HEADERS, BODY)).detail == "address refused: loopback"
            # An idle connection would remain open for longer.
            await eventually(lambda: not receiver.open)
            settings.allowed_networks = LOOPBACK
            assert (await ours.post(url, HEADERS, BODY)).ok
            assert receiver.connections == 2

    run_quickly(run())


def test_a_connection_is_used_again_and_again() -> None:
    async def run() -> None:
        async with receiving(answering(status(200, body=b"thanks"))) as receiver, sender() as ours:
            for _ in range(20):
                assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            assert (receiver.connections, len(receiver.requests)) == (1, 20)

    run_quickly(run())


def test_a_host_has_at_most_its_number_of_connections() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender(connections_per_host=3) as ours:
            results = await asyncio.gather(*(ours.post(receiver.url, HEADERS, BODY) for _ in range(30)))
            assert all(result.ok for result in results)
            assert 1 < receiver.most_open <= 3

    run_quickly(run())


def answers_over_time(permissions: list[bool]) -> Callable[[], bool]:
    """Permissions in order, of which the last one remains."""
    left = list(permissions)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_lease_that_is_lost_before_the_connection_sends_nothing() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender() as ours:
            result = await ours.post(receiver.url, HEADERS, BODY, may_send=lambda: False)
            assert (result.code, result.detail, result.not_sent) == (0, "not sent: the lease is lost", True)
            assert receiver.connections == 0

    run_quickly(run())


@pytest.mark.parametrize("pooled", [False, True])
def test_a_lease_that_is_lost_while_connecting_sends_no_whole_request(pooled: bool) -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender() as ours:
            if pooled:
                assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            may_send = answers_over_time([True, False])
            result = await ours.post(receiver.url, HEADERS, BODY, may_send=may_send)
            assert (result.code, result.detail, result.not_sent) == (0, "not sent: the lease is lost", True)
            await eventually(lambda: receiver.connections == 1 and not receiver.open)
            assert len(receiver.requests) == int(pooled)
            assert BODY not in receiver.received

    run_quickly(run())


def test_a_question_for_the_lease_that_raises_is_an_attempt_that_sends_nothing() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender() as ours:

            def broken() -> bool:
                raise RuntimeError("s3cret")

            result = await ours.post(receiver.url, HEADERS, BODY, may_send=broken)
            assert (result.code, result.detail) == (0, "the request failed: RuntimeError")
            assert receiver.connections == 0

    run_quickly(run())


def test_headers_that_would_make_another_request_are_not_sent() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver, sender() as ours:
            result = await ours.post(receiver.url, {"x": "y\r\nContent-Length: 0"}, BODY)
            assert result.code == 0
            assert receiver.requests == []

    run_quickly(run())


def test_cookies_and_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with (
            receiving(answering(OK)) as proxy,
            receiving(answering(status(200, "Set-Cookie: a=b; Path=/"))) as receiver,
        ):
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
            async with sender() as ours:
                for _ in range(2):
                    assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            assert proxy.connections == 0
            assert [headers.get("cookie") for _, headers, _ in receiver.requests] == [None, None]

    run_quickly(run())


def test_a_compressed_body_is_not_decompressed() -> None:
    bomb = gzip.compress(b"\0" * 30_000_000)

    async def run() -> None:
        text = status(200, "Content-Encoding: gzip", body=bomb)
        async with receiving(answering(text)) as receiver, sender(max_response_bytes=len(bomb) + 1000) as ours:
            for _ in range(2):
                assert (await ours.post(receiver.url, HEADERS, BODY)).ok
            assert receiver.connections == 1, "a decompressed body would be too long, and its connection closed"

    run_quickly(run())


def tls_pair(*names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a receiver with these names and of a sender that trusts its authority."""
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    return theirs, ours


def test_tls_needs_a_certificate_of_a_trusted_authority_for_the_name() -> None:
    async def run() -> None:
        theirs, trusting = tls_pair("127.0.0.1", "one.example")
        _, other = tls_pair("127.0.0.1")
        names = Names(one_example=["127.0.0.1"], one_example_=["127.0.0.1"], two_example=["127.0.0.1"])
        async with receiving(answering(OK), tls=theirs) as receiver:
            port = receiver.port
            async with sender(ssl_context=trusting, resolver=names, allow_http=False) as ours:
                assert (await ours.post(f"https://127.0.0.1:{port}/", HEADERS, BODY)).ok
                assert (await ours.post(f"https://one.example.:{port}/", HEADERS, BODY)).ok
                assert (await ours.post(f"https://one.example:{port}/", HEADERS, BODY)).ok
                wrong_name = await ours.post(f"https://two.example:{port}/", HEADERS, BODY)
            async with sender(ssl_context=other) as ours:
                stranger = await ours.post(f"https://127.0.0.1:{port}/", HEADERS, BODY)
            async with sender() as ours:
                of_the_system = await ours.post(f"https://127.0.0.1:{port}/", HEADERS, BODY)
            assert len(receiver.requests) == 3
        for refused in (wrong_name, stranger, of_the_system):
            assert refused.code == 0
            assert refused.detail.startswith("TLS: the certificate is not accepted")

    run_quickly(run())


def test_a_receiver_without_tls_is_no_receiver_with_tls() -> None:
    async def run() -> None:
        async with receiving(lambda _: _answer_at_once(b"hello\r\n")) as receiver, sender() as ours:
            result = await ours.post(receiver.url.replace("http:", "https:"), HEADERS, BODY)
        assert result.code == 0
        assert result.detail.startswith("TLS: ")

    run_quickly(run())


def _answer_at_once(text: bytes) -> Any:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await reader.read()

    return answer


def test_a_cancelled_post_raises_and_closes_its_connection() -> None:
    async def run() -> None:
        async with receiving(silent) as receiver, sender() as ours:
            post = asyncio.create_task(ours.post(receiver.url, HEADERS, BODY))
            await eventually(lambda: BODY in receiver.received)
            post.cancel()
            with pytest.raises(asyncio.CancelledError):
                await post
            await eventually(lambda: not receiver.open)

    run_quickly(run())


def test_a_closed_sender_sends_nothing() -> None:
    async def run() -> None:
        async with receiving(answering(OK)) as receiver:
            async with sender() as ours:
                pass
            assert (await ours.post(receiver.url, HEADERS, BODY)).code == 0
            assert receiver.connections == 0

    run_quickly(run())


def test_a_host_that_hangs_delays_no_other_and_each_host_keeps_its_order() -> None:
    async def run() -> None:
        tasks: set[asyncio.Task[None]] = set()

        async def deliver(host: str, url: str, number: int) -> None:
            result = await ours.post(url, HEADERS, str(number).encode())
            gate.done(host, answered=bool(result.code))

        def start(host: str, item: tuple[str, int]) -> None:
            task = asyncio.create_task(deliver(host, *item))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        gate: HostGate[tuple[str, int]] = HostGate(start, per_host=1, total=4)
        async with receiving(silent) as hanging, receiving(answering(OK)) as good, sender(total_timeout=120) as ours:
            for number in range(40):
                gate.add("hanging", (hanging.url, number))
                gate.add("good", (good.url, number))
            await eventually(lambda: len(good.requests) == 40 and hanging.connections)
            assert [int(body) for _, _, body in good.requests] == list(range(40))
            assert (good.connections, hanging.connections) == (1, 1)
            for task in tasks:
                task.cancel()

    run_quickly(run())


def test_no_detail_has_the_query_of_the_url() -> None:
    for kind in (silent, closing(b""), closing(b"nonsense\r\n\r\n"), answering(status(500))):
        result, _ = attempt_at(kind, total_timeout=0.2)
        assert "s3cret" not in result.detail
        assert result.detail.isprintable()
