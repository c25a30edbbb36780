# SPDX-License-Identifier: Apache-2.0
"""TLS, an HTTP proxy with Basic authentication, and a single entry address: the stream and the catch-up alike."""

from __future__ import annotations

import ssl
import threading

import grpc
import pytest
import trustme

from tests.unit.client.watch.connect_proxy import ConnectProxy
from tests.unit.client.watch.watching import Watching
from tests.waiting import deadline, wait_until
from watcher_sync.client.watch import InvalidSettings, Tls, UnsupportedProxy, WatchManager, WatchOptions
from watcher_sync.client.watch.connection import Route, split_address
from watcher_sync.testing.watch.service import FakeWatchService

HOST = "watch.example.com"


class Secured:
    """A service with the certificate of :data:`HOST`, and the files that a client needs."""

    def __init__(self, folder, *, is_mutual=False):
        authority = trustme.CA()
        server, client = authority.issue_cert(HOST), authority.issue_cert("agent.example.com")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        client.private_key_pem.write_to_path(folder / "key.pem")
        (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
        self.tls = Tls(ca_file=str(folder / "ca.pem"))
        self.mutual = Tls(
            ca_file=str(folder / "ca.pem"), cert_file=str(folder / "cert.pem"), key_file=str(folder / "key.pem")
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.configure_cert(context)
        self.names: list[str | None] = []
        context.sni_callback = lambda connection, name, _: self.names.append(name)
        if is_mutual:
            authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
        self.service = FakeWatchService(
            credentials=grpc.ssl_server_credentials(
                [(server.private_key_pem.bytes(), chain)],
                root_certificates=authority.cert_pem.bytes() if is_mutual else None,
                require_client_auth=is_mutual,
            ),
            context=context,
        )

    @property
    def rest_port(self):
        return int(self.service.url.rpartition(":")[2])


@pytest.fixture
def secured(tmp_path):
    made = Secured(tmp_path)
    with made.service:
        yield made


def test_a_single_entry_address_is_dialled_with_the_name_of_the_host(secured):
    secured.service.topic.publish(4)
    with Watching(
        secured.service,
        after=1,
        host=HOST,
        port=443,
        tls=secured.tls,
        single_entry_address=f"127.0.0.1:{secured.service.port}",
        harvester=NoCatchUp(),
    ) as watching:
        assert watching.wait_for(3) == [2, 3, 4]


class NoCatchUp:
    """A harvester without events."""

    def harvest(self, topic, after, token):
        return iter(())


def test_the_catch_up_dials_the_single_entry_address_too(secured):
    secured.service.topic.publish(4)
    with Watching(
        secured.service,
        after=1,
        host=HOST,
        # Only the catch-up can succeed: the stream has the other port.
        port=443,
        tls=secured.tls,
        single_entry_address=f"127.0.0.1:{secured.rest_port}",
        harvester=f"https://{HOST}",
    ):
        wait_until(lambda: secured.service.asked)

    assert HOST in secured.names
    assert secured.service.asked[0].headers["host"] == HOST


def test_a_certificate_of_another_name_is_refused(secured):
    with Watching(
        secured.service,
        after=1,
        host="other.example.com",
        tls=secured.tls,
        single_entry_address=f"127.0.0.1:{secured.service.port}",
        harvester=NoCatchUp(),
    ) as watching:
        secured.service.topic.publish(3)
        refused = threading.Event()
        watching.manager._channel.subscribe(
            lambda state: state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and refused.set()
        )
        assert refused.wait(deadline(60))
        assert not watching.manager.status()

    assert not secured.service.streams


def test_a_certificate_of_an_unknown_authority_is_refused_by_the_catch_up(secured, tmp_path, caplog):
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    route = Route(tls=Tls(ca_file=str(tmp_path / "other.pem")), single_entry_address=f"127.0.0.1:{secured.rest_port}")
    pool, root = route.pool(f"https://{HOST}")
    with pytest.raises(Exception, match="certificate verify failed"):
        pool.request("GET", root, retries=False)


def test_a_client_certificate_opens_both_ways(tmp_path):
    secured = Secured(tmp_path, is_mutual=True)
    with secured.service as service:
        service.topic.publish(3)
        common = {"host": HOST, "port": 443, "tls": secured.mutual}
        with Watching(
            service, after=1, single_entry_address=f"127.0.0.1:{service.port}", harvester=NoCatchUp(), **common
        ) as watching:
            assert watching.wait_for(2) == [2, 3]
        with Watching(
            service,
            after=1,
            single_entry_address=f"127.0.0.1:{secured.rest_port}",
            harvester=f"https://{HOST}",
            **common,
        ):
            wait_until(lambda: service.asked)


@pytest.mark.slow
@pytest.mark.parametrize("password", ["pw", "p:w/1@ü"])
def test_a_proxy_gets_connect_with_the_credentials_of_its_url(password):
    with ConnectProxy("agent", password) as proxy, FakeWatchService(is_stock=True) as service:
        quoted = {"pw": "pw", "p:w/1@ü": "p%3Aw%2F1%40%C3%BC"}[password]
        service.topic.publish(4)
        with Watching(service, after=1, proxy=f"http://agent:{quoted}@127.0.0.1:{proxy.port}") as watching:
            assert watching.wait_for(3) == [2, 3, 4]
            wait_until(lambda: len(proxy.passed) >= 2)

    assert f"CONNECT 127.0.0.1:{service.port} HTTP/1.1" in proxy.passed
    assert any("/events/management" in line for line in proxy.passed)
    assert not proxy.refused


def test_wrong_credentials_reach_nothing():
    with ConnectProxy("agent", "right") as proxy, FakeWatchService() as service:
        with Watching(service, after=1, proxy=f"http://agent:wrong@127.0.0.1:{proxy.port}") as watching:
            wait_until(lambda: len(proxy.refused) >= 2)
            assert not watching.manager.status()

        assert not proxy.passed
        assert not service.streams
        assert not service.asked


def test_tls_and_a_single_entry_address_go_through_the_proxy(secured):
    with ConnectProxy("agent", "pw") as proxy:
        proxy.names["entry.example.net"] = "127.0.0.1"
        secured.service.topic.publish(4)
        common = {
            "host": HOST,
            "port": 443,
            "tls": secured.tls,
            "proxy": f"http://agent:pw@127.0.0.1:{proxy.port}",
        }
        with Watching(
            secured.service,
            after=1,
            single_entry_address=f"entry.example.net:{secured.service.port}",
            harvester=NoCatchUp(),
            **common,
        ) as watching:
            assert watching.wait_for(3) == [2, 3, 4]
        with Watching(
            secured.service,
            after=1,
            single_entry_address=f"entry.example.net:{secured.rest_port}",
            harvester=f"https://{HOST}",
            **common,
        ):
            wait_until(lambda: secured.service.asked)

    assert f"CONNECT entry.example.net:{secured.service.port} HTTP/1.1" in proxy.passed
    assert f"CONNECT entry.example.net:{secured.rest_port} HTTP/1.1" in [
        line.replace("HTTP/1.0", "HTTP/1.1") for line in proxy.passed
    ]


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "https://127.0.0.1:3128", "127.0.0.1:3128", "http://"])
def test_a_proxy_that_grpc_would_bypass_is_refused(url):
    with pytest.raises(UnsupportedProxy, match=r"http://\[user:password@\]host:port"):
        WatchManager("watch.example.com", 443, "t", lambda: "x", WatchOptions(proxy=url))


def test_the_refusal_of_a_proxy_does_not_show_its_password():
    with pytest.raises(UnsupportedProxy) as refusal:
        options = WatchOptions(proxy="socks5://agent:secret@127.0.0.1:1080")
        WatchManager("watch.example.com", 443, "t", lambda: "x", options)

    assert "socks5" in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("address", ["", "a/b", "user@host", "host:x", ":443"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InvalidSettings):
        WatchManager("watch.example.com", 443, "t", lambda: "x", WatchOptions(single_entry_address=address))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("entry", ("entry", 443)),
        ("entry:99", ("entry", 99)),
        ("[::1]:99", ("::1", 99)),
        ("10.0.0.1", ("10.0.0.1", 443)),
    ],
)
def test_an_address_may_have_a_port(address, expected):
    assert split_address(address, 443) == expected


def test_a_tls_file_that_does_not_exist_is_named():
    with pytest.raises(InvalidSettings, match=r"no-such\.pem"):
        WatchManager("watch.example.com", 443, "t", lambda: "x", WatchOptions(tls=Tls(ca_file="/no-such.pem")))
