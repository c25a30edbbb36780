# SPDX-License-Identifier: Apache-2.0
"""Every way to log in, and TLS."""

from __future__ import annotations

import contextlib
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nkeys
import pytest
import trustme

from tests.functional.sources.jetstream import (
    cloud_event,
    connected,
    dcm_of,
    disconnected,
    make_source,
    reading,
    running,
)
from tests.functional.sources.listening import Engine
from tests.functional.sources.nats_accounts import Operator, new_seed, public_key
from tests.services.servers import Server, private_nats
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources.base import SourceState

REFUSED = "Authorization Violation|closed the connection at the login"
"""Which of both is a matter of whether the server's reason arrives before its reset."""


@contextlib.contextmanager
def stocked(config: str, **login: Any) -> Iterator[Server]:
    """A server with this configuration, with one message in the stream."""
    with private_nats(config) as server, dcm_of(server.url, **login) as dcm:
        dcm.make_stream()
        dcm.publish(cloud_event(1))
        yield server


def reads(url: str, **options: Any) -> None:
    """A source with these options gets the message; so does the check before the start."""
    make_source(url, **options).probe()
    engine = Engine(acks=True)
    with reading(engine, url, durable=f"reader-{secrets.token_hex(4)}", **options):
        wait_until(lambda: [event.id for event in engine.events] == ["e-1"])


def is_refused(url: str, about: str, **options: Any) -> None:
    """A source with these options says so, and goes on trying."""
    with pytest.raises(SourceError, match=about):
        make_source(url, **options).probe()
    with running(Engine(acks=True), url, **options) as source:
        disconnected(source, about)


def test_a_user_logs_in_with_a_password() -> None:
    with stocked("authorization { user: reader, password: s3cret }", user="reader", password="s3cret") as server:
        reads(server.url, user="reader", password="s3cret")
        reads(server.url.replace("//", "//reader:s3cret@"))
        is_refused(server.url, REFUSED, user="reader", password="wrong")
        is_refused(server.url, REFUSED)


@contextlib.contextmanager
def resetting() -> Iterator[str]:
    """A server that greets, reads the login, and resets the connection before its reason arrives; gives its URL."""

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b'INFO {"client_id": 5, "max_payload": 1048576, "auth_required": true}\r\n')
                    connection.recv(65536)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(deadline(60))


def test_a_reset_during_the_login_is_called_a_refusal() -> None:
    with resetting() as url:
        is_refused(url, "closed the connection at the login", user="reader", password="wrong")


def test_a_token_logs_in() -> None:
    with stocked("authorization { token: t0ken }", token="t0ken") as server:
        reads(server.url, token="t0ken")
        is_refused(server.url, REFUSED, token="other")


def test_an_nkey_logs_in(tmp_path: Path) -> None:
    seed = new_seed(nkeys.PREFIX_BYTE_USER)
    (tmp_path / "seed").write_bytes(seed + b"\n")
    (tmp_path / "other").write_bytes(new_seed(nkeys.PREFIX_BYTE_USER))
    config = f"authorization {{ users: [{{ nkey: {public_key(seed)} }}] }}"
    with stocked(config, nkeys_seed=str(tmp_path / "seed")) as server:
        reads(server.url, nkey_seed_file=str(tmp_path / "seed"))
        is_refused(server.url, REFUSED, nkey_seed_file=str(tmp_path / "other"))


def test_a_credentials_file_logs_in(tmp_path: Path) -> None:
    operator = Operator()
    good = operator.credentials(tmp_path / "good")
    with stocked(operator.server_config(), user_credentials=str(good)) as server:
        reads(server.url, credentials_file=str(good))
        other = Operator().credentials(tmp_path / "other")
        is_refused(server.url, REFUSED, credentials_file=str(other))


def test_a_login_that_expires_is_renewed_from_the_file(tmp_path: Path) -> None:
    """The client library closes for good then."""
    operator = Operator()
    good = operator.credentials(tmp_path / "good")
    with stocked(operator.server_config(), user_credentials=str(good)) as server:
        engine = Engine(acks=True)
        short = operator.credentials(tmp_path / "short", seconds=20)  # enough for a login after a pause
        with reading(engine, server.url, credentials_file=str(short)) as source:
            wait_until(lambda: engine.events)
            disconnected(source, "")
            operator.credentials(short)
            connected(source)
            with dcm_of(server.url, user_credentials=str(good)) as dcm:
                dcm.publish(cloud_event(2))
            wait_until(lambda: engine.events[-1].id == "e-2")


def test_a_missing_permission_is_named() -> None:
    users = """accounts { A { jetstream: enabled, users: [
        { user: dcm, password: d },
        { user: reader, password: r, permissions: { publish: "nothing" } }
    ] } }"""
    with (
        stocked(users, user="dcm", password="d") as server,
        running(Engine(acks=True), server.url, user="reader", password="r") as source,
    ):
        disconnected(source, "permissions violation for publish")


def test_a_missing_permission_to_acknowledge_is_named() -> None:
    """No request waits for its answer, because there is none."""
    users = """accounts { A { jetstream: enabled, users: [
        { user: dcm, password: d },
        { user: reader, password: r, permissions: { publish: "$JS.API.>", subscribe: "_INBOX.>" } }
    ] } }"""
    with (
        stocked(users, user="dcm", password="d") as server,
        reading(Engine(acks=True), server.url, user="reader", password="r") as source,
    ):
        refused = 'permissions violation for publish to "$js.ack.dcm-status.watcher-sync.'
        wait_until(lambda: refused in source.status().detail, what="the refusal to be shown")
        assert source.status().state is SourceState.CONNECTED


def tls_config(folder: Path, *, verify: bool = False) -> tuple[str, trustme.CA]:
    """What a server's configuration needs for TLS, with a certificate made for it."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    files = f'cert_file: "{folder}/server.pem", key_file: "{folder}/server.key", ca_file: "{folder}/ca.pem"'
    return f"tls {{ {files}, verify: {str(verify).lower()} }}", authority


def test_tls_with_a_certificate_of_our_own_authority(tmp_path: Path) -> None:
    config, authority = tls_config(tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    trustme.CA().cert_pem.write_to_path(tmp_path / "stranger.pem")
    with stocked(config, tls=context) as server:
        reads(server.url, tls_ca_file=str(tmp_path / "ca.pem"))
        reads(server.url.replace("nats://", "tls://"), tls_ca_file=str(tmp_path / "ca.pem"))
        is_refused(server.url, "CERTIFICATE_VERIFY_FAILED", tls_ca_file=str(tmp_path / "stranger.pem"))
        is_refused(
            server.url, "CERTIFICATE_VERIFY_FAILED", tls_ca_file=str(tmp_path / "ca.pem"), tls_hostname="elsewhere"
        )


def test_a_certificate_that_is_missing_or_half_written_at_a_reconnect_is_the_reason(tmp_path: Path) -> None:
    config, authority = tls_config(tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    file = tmp_path / "trusted.pem"
    authority.cert_pem.write_to_path(file)
    engine = Engine(acks=True)
    with stocked(config, tls=context) as server, reading(engine, server.url, tls_ca_file=str(file)) as source:
        wait_until(lambda: engine.events)
        file.unlink()
        server.kill()
        server.start()
        disconnected(source, "No such file or directory")
        file.write_text("-----BEGIN CERTIFICATE-----\n")
        disconnected(source, "NO_CERTIFICATE_OR_CRL_FOUND|PEM")
        authority.cert_pem.write_to_path(file)
        connected(source)


def test_tls_with_a_certificate_of_the_client(tmp_path: Path) -> None:
    config, authority = tls_config(tmp_path, verify=True)
    client = authority.issue_cert("reader")
    client.private_key_pem.write_to_path(tmp_path / "client.key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "client.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    client.configure_cert(context)
    ours = {
        "tls_ca_file": str(tmp_path / "ca.pem"),
        "tls_cert_file": str(tmp_path / "client.pem"),
        "tls_key_file": str(tmp_path / "client.key"),
    }
    with stocked(config, tls=context) as server:
        reads(server.url, **ours)
        with running(Engine(acks=True), server.url, tls_ca_file=ours["tls_ca_file"]) as source:
            disconnected(source, "cannot connect")


def test_a_password_is_not_sent_to_a_server_without_tls_where_tls_is_configured(tmp_path: Path) -> None:
    tls_config(tmp_path)
    with stocked(
        "authorization { user: reader, password: s3cret }\ntrace: true", user="reader", password="s3cret"
    ) as s:
        s.log.write_text("")
        is_refused(s.url, "does not offer TLS", user="reader", password="s3cret", tls_ca_file=str(tmp_path / "ca.pem"))
        assert "CONNECT" not in s.log.read_text()
        is_refused(s.url.replace("nats://", "tls://reader:s3cret@"), "does not offer TLS")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"token": "t", "user": "u"}, r"\[source_dcm\] token: cannot be set beside user"),
        ({"password": "p"}, "password: is set without user"),
        ({"tls_ca_file": "/nowhere/ca.pem"}, "tls_ca_file: /nowhere/ca.pem: No such file"),
        ({"tls_key_file": "/dev/null"}, "tls_key_file: is set without tls_cert_file"),
        ({"servers": ["http://x"]}, "servers: has a URL"),
        ({"servers": ["nats://u:a/b@127.0.0.1:4222"]}, "servers: the URL has an @ that is not before a host; .* %23$"),
        ({"servers": ["nats://u:a"]}, "servers: has a URL that is neither .*tls://host:port$"),
        ({"servers": []}, "servers: names no server"),
        ({"stream": "a.b"}, "stream: is no name"),
        ({"durable": "a b"}, "durable: is no name"),
        ({"subject": "dcm..x"}, "subject: is no NATS subject"),
        ({"batch": 6000}, "max_ack_pending: is 10000, less than 2 x batch"),
        ({"ack_wait": 0.5, "linger": 0.5}, "ack_wait: is not longer than linger"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make_source("nats://127.0.0.1:1", **options)
