# SPDX-License-Identifier: Apache-2.0
"""The guard against server-side request forgery: each address and each form of a URL that is refused."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.wire.callback_urls import BadCallback, address_refusal, check_callback, host_of


def networks(*texts: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text) for text in texts]


REFUSED = [
    ("127.0.0.1", "loopback", "127.0.0.0/8"),
    ("127.255.255.254", "loopback", "127.0.0.0/8"),
    ("10.1.2.3", "private", "10.0.0.0/8"),
    ("172.16.0.1", "private", "172.16.0.0/12"),
    ("172.31.255.255", "private", "172.16.0.0/12"),
    ("192.168.1.1", "private", "192.168.1.0/24"),
    ("169.254.169.254", "link-local", "169.254.169.254/32"),
    ("224.0.0.1", "multicast", "224.0.0.0/4"),
    ("0.0.0.0", "unspecified", "0.0.0.0/32"),
    ("0.1.2.3", "unspecified", "0.0.0.0/8"),
    ("240.0.0.1", "reserved", "240.0.0.0/4"),
    ("255.255.255.255", "reserved", "255.255.255.255/32"),
    ("100.64.0.1", "shared", "100.64.0.0/10"),
    ("192.0.0.8", "reserved for protocols", "192.0.0.0/24"),
    ("192.0.2.1", "documentation", "192.0.2.0/24"),
    ("198.51.100.1", "documentation", "198.51.100.0/24"),
    ("203.0.113.1", "documentation", "203.0.113.0/24"),
    ("198.19.255.255", "benchmarks", "198.18.0.0/15"),
    ("192.88.99.1", "6to4", "192.88.99.0/24"),
    ("::", "unspecified", "::/128"),
    ("::1", "loopback", "::1/128"),
    ("::127.0.0.1", "IPv4-compatible", "::/96"),
    ("::8.8.8.8", "IPv4-compatible", "::/96"),
    ("::ffff:127.0.0.1", "loopback, in an IPv4-mapped form", "127.0.0.0/8"),
    ("::ffff:127.0.0.1", "loopback, in an IPv4-mapped form", "::ffff:0:0/96"),
    ("::ffff:a9fe:a9fe", "link-local", "169.254.169.254/32"),
    ("::ffff:0:127.0.0.1", "reserved", "::ffff:0:0:0/96"),
    ("64:ff9b::7f00:1", "NAT64", "64:ff9b::/96"),
    ("64:ff9b::8.8.8.8", "NAT64", "64:ff9b::/96"),
    ("64:ff9b:1::a00:1", "NAT64", "64:ff9b:1::/48"),
    ("2002:7f00:1::", "6to4", "2002:7f00:1::/48"),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo", "2001::/32"),
    ("2001:2::1", "benchmarks", "2001:2::/48"),
    ("2001:10::1", "reserved for protocols", "2001:10::/28"),
    ("2001:db8::1", "documentation", "2001:db8::/32"),
    ("3fff::1", "documentation", "3fff::/20"),
    ("fc00::1", "private", "fc00::/7"),
    ("fd12:3456:789a::1", "private", "fd12:3456:789a::/48"),
    ("fe80::1", "link-local", "fe80::/10"),
    ("fec0::1", "site-local", "fec0::/10"),
    ("ff02::1", "multicast", "ff00::/8"),
    ("100::1", "reserved", "100::/64"),
    ("5f00::1", "reserved", "5f00::/16"),
    ("4000::1", "reserved", "4000::/3"),
]


@pytest.mark.parametrize(("address", "reason", "network"), REFUSED)
def test_an_address_is_refused_unless_a_network_allows_it(address: str, reason: str, network: str) -> None:
    host = f"[{address}]" if ":" in address else address
    refusal = address_refusal(address, [])
    assert refusal is not None
    assert reason in refusal
    with pytest.raises(BadCallback, match=reason):
        check_callback(f"https://{host}/x", allow_http=False, allowed=[])

    assert address_refusal(address, networks("203.0.112.0/24", network)) is None
    check_callback(f"https://{host}/x", allow_http=False, allowed=networks(network))


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"],
)
def test_a_globally_reachable_address_may_be_connected_to(address: str) -> None:
    assert address_refusal(address, []) is None


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "::127.0.0.1"])
def test_an_allowed_ipv4_network_does_not_allow_the_tunnels_to_it(address: str) -> None:
    assert address_refusal(address, networks("0.0.0.0/0")) is not None


@pytest.mark.parametrize("address", ["fe80::1%eth0", "::1%1", "2606:4700::1111%eth0", "8.8.8.8%1"])
def test_an_address_with_a_scope_is_refused_even_where_its_network_is_allowed(address: str) -> None:
    assert address_refusal(address, networks("::/0", "0.0.0.0/0")) == "an address with a scope"


@pytest.mark.parametrize("text", ["", "example.com", "localhost", "127.1", "0x7f000001", "2130706433", "[::1]", "1"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    assert address_refusal(text, networks("::/0", "0.0.0.0/0")) == "not an address"


@pytest.mark.slow
@given(st.ip_addresses(v=4))
def test_what_python_says_is_not_global_is_refused(address: ipaddress.IPv4Address) -> None:
    refusal = address_refusal(str(address), [])

    assert refusal is not None or address.is_global
    mapped = address_refusal(f"::ffff:{address}", [])
    assert (mapped is None) == (refusal is None)


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_outside_global_unicast_is_refused(address: ipaddress.IPv6Address) -> None:
    if address.ipv4_mapped is None and address_refusal(str(address), []) is None:
        assert address in ipaddress.ip_network("2000::/3")
        assert address.is_global


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0",
        "127.0.0.1.",
        "2852039166",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_other_forms_of_an_inner_address_are_refused(host: str, scheme: str) -> None:
    with pytest.raises(BadCallback, match="its address is refused"):
        check_callback(f"{scheme}://{host}/", allow_http=True, allowed=[])
    with pytest.raises(BadCallback, match="unusual form"):
        check_callback(f"{scheme}://{host}/", allow_http=True, allowed=networks("0.0.0.0/0"))


@pytest.mark.parametrize("host", ["134744072", "0x08080808", "8.8.8.8.", "8.8.2056", "010.8.8.8"])
def test_other_forms_of_a_public_address_are_refused_too(host: str) -> None:
    with pytest.raises(BadCallback, match="unusual form"):
        check_callback(f"https://{host}/", allow_http=False, allowed=[])


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "localhost.", "a.localhost", "a.b.localhost."])
def test_the_local_host_is_refused_by_its_name_unless_loopback_is_allowed(host: str) -> None:
    with pytest.raises(BadCallback, match="local host"):
        check_callback(f"https://{host}/", allow_http=False, allowed=networks("10.0.0.0/8"))

    check_callback(f"https://{host}/", allow_http=False, allowed=networks("127.0.0.0/8"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "scheme"),
        ("example.com/x", "scheme"),
        ("//example.com/x", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("tcp://example.com/", "scheme"),
        ("http://example.com/", "only https"),
        ("https:///x", "no host"),
        ("https://", "no host"),
        ("https:example.com", "no host"),
        ("https://:443/", "no host"),
        ("https://user@example.com/", "credentials"),
        ("https://user:password@example.com/", "credentials"),
        ("https://@example.com/", "credentials"),
        ("https://example.com/#", "fragment"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com/" + "x" * 1981, "longer than 2000"),
        ("https://example.com/a b", "character"),
        (" https://example.com/", "character"),
        ("https://example.com/\n", "character"),
        ("https://exa\tmple.com/", "character"),
        ("https://example.com/\x00", "character"),
        ("https://example.com/é", "character"),
        ("https://exämple.com/", "character"),
        ("https://example.com/\r\nHost:x", "character"),
        ("https://example.com\\@127.0.0.1/", "character"),
        ("https://１２７.0.0.1/", "character"),  # noqa: RUF001 - digits that some parsers normalise
        ("https://example.com:0/", "port"),
        ("https://example.com:65536/", "port"),
        ("https://example.com:x/", "port"),
        ("https://example.com:-1/", "port"),
        ("https://example.com:/", "port"),
        ("https://[::1/", "host"),
        ("https://[]/", "host"),
        ("https://[v1.x]/", "not an address|host"),
        ("https://[fe80::1%25eth0]/", "scope|host"),
        ("https://[127.0.0.1]/", "host|loopback"),
        ("https://::1/", "port|host"),
        ("https://127%2E0.0.1/", "host"),
        ("https://a..example/", "host"),
        ("https://.example/", "host"),
        ("https://example..", "host"),
        ("https://-a.example/", "host"),
        ("https://" + "a" * 64 + ".example/", "host"),
        ("https://" + "a." * 127 + "example/", "host"),
        ("https://256.256.256.256/", "host"),
        ("https://a.1/", "host"),
        ("https://1.2.3.4.5/", "host"),
        ("https://example.0x/", "host"),
    ],
)
def test_a_url_that_no_callback_may_have_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(BadCallback, match=reason) as refusal:
        check_callback(url, allow_http=False, allowed=[])

    assert "example" not in str(refusal.value)
    assert "password" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "HTTPS://Example.COM:8443/path?token=a%20b&x=[1]",
        "https://example.com.:443/",
        "https://a_b.example/",
        "https://xn--exmple-cua.com/",
        "https://1password.example/",
        "https://123.example/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/x",
        "https://example.com/" + "x" * 1980,
    ],
)
def test_an_ordinary_url_is_accepted(url: str) -> None:
    check_callback(url, allow_http=False, allowed=[])


def test_http_is_accepted_by_option() -> None:
    check_callback("http://example.com:8080/x", allow_http=True, allowed=[])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.COM/x?y", "https://example.com:443"),
        ("HTTP://example.com.", "http://example.com:80"),
        ("https://example.com:8443/", "https://example.com:8443"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]:443"),
        ("https://[2606:4700::1111]:1/", "https://[2606:4700::1111]:1"),
    ],
)
def test_the_key_of_a_host_has_its_scheme_name_and_port(url: str, host: str) -> None:
    assert host_of(url) == host
