# SPDX-License-Identifier: Apache-2.0
"""Each insecure setting is one line of the upgrade check, with the option, the file and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.cmd.checks.insecure_settings import find_insecure_access, find_insecure_transports  # noqa: E402
from watcher_sync.cmd.checks.loose_files import find_loose_files  # noqa: E402


@pytest.fixture
def configured(tmp_path):
    """The configuration of a file with these sections: {group: {option: value}}."""

    def read(sections: dict[str, dict[str, Any]], mode: int = 0o640) -> Any:
        path = tmp_path / "ws.conf"
        sections = {"DEFAULT": {"state_path": tmp_path}, **sections}
        path.write_text(
            "".join(f"[{name}]\n" + "".join(f"{o} = {v}\n" for o, v in s.items()) for name, s in sections.items())
        )
        path.chmod(mode)
        return process.make_conf([f"--config-file={path}"], prog="test")

    return read


def _source(name: str, driver: str, **options: Any) -> dict[str, dict[str, Any]]:
    return {"engine": {"enabled_sources": name}, f"source_{name}": {"driver": driver, **options}}


def _rabbit(url: str, driver: str = "rabbitmq") -> dict[str, dict[str, Any]]:
    return _source("nova", driver, transport_url=url)


def _nats(servers: str, **options: Any) -> dict[str, dict[str, Any]]:
    return _source("dcm", "nats_jetstream", servers=servers, stream="s", subject="dcm.*", durable="d", **options)


def _log(driver: str, **options: Any) -> dict[str, dict[str, Any]]:
    return {"outlets": {"enabled": "log"}, "outlet_log": {"driver": driver, **options}}


def _region(endpoint: str = "https://region", **options: Any) -> dict[str, dict[str, Any]]:
    login = {"username": "ws", "password": "hidden"}
    return _source("east", "federation", endpoint=endpoint, **options, **(login if "auth_url" in options else {}))


def _database(url: str) -> dict[str, dict[str, Any]]:
    return {"database": {"connection": url}}


def _keystone(url: str) -> dict[str, dict[str, Any]]:
    return {"keystone_authtoken": {"auth_type": "password", "auth_url": url}}


_SMALLER = "name only the networks of the receivers"


def _webhooks(networks: str = "", **options: Any) -> dict[str, dict[str, Any]]:
    return {"outlet_webhook": {"allowed_networks": networks, **options}}


def _only(findings: list[str], tmp_path: Path, option: str, remedy: str) -> None:
    """One line, with the option, the file that sets it, and the remedy."""
    (finding,) = findings
    assert "\n" not in finding
    assert option in finding
    assert str(tmp_path) in finding
    assert remedy in finding
    assert "hidden" not in finding


def test_the_defaults_have_no_finding(configured):
    conf = configured({})
    assert find_insecure_access(conf) == []
    assert find_insecure_transports(conf) == []
    assert find_loose_files(conf) == []


@pytest.mark.parametrize(
    ("sections", "option", "remedy"),
    [
        ({"api": {"auth_strategy": "noauth"}}, "[api] auth_strategy", "auth_strategy = keystone"),
        ({"monitoring": {"port": 9000, "host": "0.0.0.0"}}, "[monitoring] host", "host = 127.0.0.1"),
        (
            _nats("nats://127.0.0.1") | {"handler_dcm": {"source_policy": "warn"}},
            "[handler_dcm] source_policy", "source_policy = bind or enforce",
        ),
        (_webhooks("0.0.0.0/0"), "0.0.0.0/0: subscribers can have the outlet connect to every address", _SMALLER),
        (_webhooks("::/0"), "::/0: subscribers can have the outlet connect to every address", _SMALLER),
        (_webhooks("10.0.0.0/8, 127.0.0.0/8"), "127.0.0.0/8: subscribers can reach services of", _SMALLER),
        (_webhooks("127.0.0.1"), "[outlet_webhook] allowed_networks", _SMALLER),
        (_webhooks("64.0.0.0/2"), "64.0.0.0/2: subscribers can reach services of the outlet's machine", _SMALLER),
        (_webhooks("::1"), "::1/128: subscribers can reach services of the outlet's machine", _SMALLER),
        (_webhooks("::ffff:0:0/96"), "subscribers can reach services of the outlet's machine", _SMALLER),
        (_webhooks("169.254.169.254"), "subscribers can reach the metadata service", _SMALLER),
        (_webhooks("fe80::/64"), "subscribers can reach all neighbours", _SMALLER),
    ],
)  # fmt: skip
def test_access_beyond_what_is_needed_is_named(configured, tmp_path, sections, option, remedy):
    _only(find_insecure_access(configured(sections)), tmp_path, option, remedy)


def test_noauth_for_other_machines_is_a_finding_of_its_own(configured):
    conf = configured({"api": {"auth_strategy": "noauth", "noauth_allow_remote": "true"}})
    assert ["[api] noauth_allow_remote" in line for line in find_insecure_access(conf)] == [False, True]


@pytest.mark.parametrize(
    "sections",
    [
        {"monitoring": {"port": 9000}},
        {"monitoring": {"host": "0.0.0.0"}},
        _nats("nats://127.0.0.1") | {"handler_dcm": {"source_policy": "enforce"}},
        _nats("nats://127.0.0.1") | {"handler_dcm": {"source_policy": "bind"}},
        _webhooks("10.20.0.0/16, fd00:12::/32, 198.51.100.7"),
        _webhooks("127.0.0.0/8", enabled="false"),
    ],
)
def test_access_that_is_restricted_has_no_finding(configured, sections):
    assert find_insecure_access(configured(sections)) == []


@pytest.mark.parametrize(
    ("sections", "option", "remedy"),
    [
        (_rabbit("rabbit://ws:hidden@mq:5672/"), "[source_nova] transport_url", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@127.0.0.1:5672,ws:hidden@mq:5672/"), "[source_nova] transport_url", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@[2001:db8::1]:5672/"), "2001:db8::1", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@mq:5672/", "oslo_messaging"), "[source_nova] transport_url", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@mq/?ssl=1", "oslo_messaging"), "[source_nova] transport_url", "set ssl_ca_file"),
        (_rabbit("rabbit://ws:hidden@mq/?rabbit_new=1", "oslo_messaging"), "[source_nova] transport_url", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@mq/?ssl=0"), "[source_nova] transport_url", "ssl = true"),
        (_rabbit("rabbit://ws:hidden@mq/?ssl=1"), "[source_nova] transport_url", "set ssl_ca_file"),
        (_nats("nats://ws:hidden@nats:4222"), "[source_dcm] servers", "tls_ca_file"),
        (_nats("ws:hidden@nats:4222"), "[source_dcm] servers", "tls_ca_file"),
        (_nats("127.0.0.1, nats"), "[source_dcm] servers", "tls_ca_file"),
        (_source("east", "federation_log", servers="nats"), "[source_east] servers", "tls_ca_file"),
        (_region("http://region", stream_tls="true"), "[source_east] endpoint", "https://"),
        (_region(auth_url="http://keystone:5000/v3"), "[source_east] auth_url", "https://"),
        (_region(stream_tls="false"), "[source_east] stream_tls", "stream_tls = true"),
        (_region("http://127.0.0.1:8775", address="region:8776"), "[source_east] address", "stream_tls = true"),
        (_log("nats_jetstream", servers="nats://ws:hidden@nats"), "[outlet_log] servers", "tls_ca_file"),
        (_log("kafka", servers="kafka:9092"), "[outlet_log] servers", "security.protocol:SASL_SSL"),
        (
            _log("kafka", servers="[::1]:9, PLAINTEXT://kafka", properties="security.protocol:SASL_PLAINTEXT"),
            "[outlet_log] servers",
            "security.protocol:SASL_SSL",
        ),
        (
            _log(
                "kafka",
                servers="kafka",
                properties="security.protocol:sasl_ssl,enable.ssl.certificate.verification:False,sasl.password:hidden",
            ),
            "[outlet_log] properties",
            "remove it",
        ),
        (
            _log(
                "kafka",
                servers="kafka",
                properties="security.protocol:ssl,ssl.endpoint.identification.algorithm:none",
            ),
            "[outlet_log] properties",
            "remove it",
        ),
        (_log("oslo_messaging", transport_url="rabbit://ws:hidden@mq/"), "[outlet_log] transport_url", "ssl = true"),
        (_database("postgresql://ws:hidden@db/ws"), "[database] connection", "sslmode=verify-full"),
        (_database("postgresql://ws:hidden@db/ws?sslmode=require"), "[database] connection", "sslmode=verify-full"),
        (_database("postgresql:///ws?host=db"), "[database] connection", "sslmode=verify-full"),
        (_database("mysql+pymysql://ws:hidden@db/ws"), "[database] connection", "ssl_ca=FILE"),
        (_database("mariadb://ws:hidden@db/ws"), "[database] connection", "ssl_ca=FILE"),
        (_keystone("http://keystone:5000"), "[keystone_authtoken] auth_url", "https URL"),
        (_webhooks(allow_http="true"), "[outlet_webhook] allow_http", "remove the option"),
        ({"keystone_authtoken": {"insecure": "true"}}, "[keystone_authtoken] insecure", "set cafile"),
        ({"reconcile_nova": {"enabled": "true", "insecure": "true"}}, "[reconcile_nova] insecure", "set cafile"),
    ],
)
def test_a_connection_to_another_machine_without_verified_tls_is_named(configured, tmp_path, sections, option, remedy):
    _only(find_insecure_transports(configured(sections)), tmp_path, option, remedy)


@pytest.mark.parametrize(
    "sections",
    [
        _rabbit("rabbit://ws:x@127.0.0.1:5672/"),
        _rabbit("rabbit://ws:x@localhost,ws:x@[::1]:5672/"),
        _rabbit("rabbit://ws:a,hidden/b@mq/"),  # the check of the sources refuses it, without a part of the password
        _rabbit("rabbit://ws:x@mq/") | {"oslo_messaging_rabbit": {"ssl": "perhaps"}},  # so does it this value
        _rabbit("rabbit://ws:x@mq/?ssl=1&ssl_ca_file=/etc/ca.pem"),
        _rabbit("rabbit://ws:x@mq/") | {"oslo_messaging_rabbit": {"ssl": "true", "ssl_ca_file": "/etc/ca.pem"}},
        _rabbit("rabbit://ws:x@mq/?ssl=1&ssl_ca_file=/etc/ca.pem", "oslo_messaging"),
        _rabbit("fake://", "oslo_messaging"),
        _nats("nats://127.0.0.1, nats://localhost:4223"),
        _nats("tls://nats:4222"),
        _nats("localhost:4222, [::1]"),
        _nats("nats://nats:4222", tls_hostname="nats.example"),
        _region(),
        _region(auth_url="https://keystone/v3"),
        _region("http://127.0.0.1:8775", auth_url="http://[::1]:5000/v3"),
        _region("http://127.0.0.1:8775", address="region:8776", stream_tls="true"),
        _log("nats_jetstream", servers="tls://nats"),
        _log("nats_jetstream", servers="127.0.0.1:4222"),
        _log("kafka", servers="127.0.0.1:9092, [::1]:9092"),
        _log("kafka", servers="kafka", properties="security.protocol:SASL_SSL"),
        _log("kafka", servers="kafka", properties="security.protocol:ssl,ssl.endpoint.identification.algorithm:https"),
        _log("oslo_messaging", transport_url="rabbit://ws:x@mq/?ssl=1&ssl_ca_file=/etc/ca.pem"),
        _log("oslo_messaging", transport_url="rabbit://ws:x@localhost/"),
        _log("kafka", servers="kafka") | {"outlets": {"enabled": ""}},
        _log("unknown", servers="kafka"),
        _database("postgresql://db/ws?sslmode=verify-full&sslrootcert=/etc/ca.pem"),
        _database("postgresql:///ws?host=/run/postgresql"),
        _database("postgresql://127.0.0.1/ws"),
        _database("mysql+pymysql://db/ws?ssl_ca=/etc/ca.pem"),
        _database("mysql+pymysql://localhost/ws"),
        {"database": {"connection": "mysql+pymysql://db/ws", "connection_parameters": "ssl_ca=/etc/ca.pem"}},
        _keystone("https://keystone:5000"),
        _keystone("http://127.0.0.1:5000"),
        _webhooks(allow_http="true", enabled="false"),
    ],
)
def test_a_connection_with_tls_or_to_this_machine_has_no_finding(configured, sections):
    assert find_insecure_transports(configured(sections)) == []


@pytest.mark.parametrize(
    ("cluster", "remedy"),
    [
        ({"server": "https://k8s", "insecure-skip-tls-verify": True}, "set certificate-authority-data"),
        ({"server": "http://k8s:8080"}, "https address"),
        ({"server": "https://k8s"}, None),
        ({"server": "http://127.0.0.1:8080"}, None),
    ],
)
def test_an_api_server_without_verified_tls_is_named(configured, tmp_path, cluster, remedy):
    path = _kubeconfig(tmp_path, cluster)
    found = find_insecure_transports(configured(_source("edge", "kubernetes", kubeconfig=path)))
    if remedy is None:
        assert found == []
    else:
        _only(found, tmp_path, "[source_edge] kubeconfig", remedy)


def _kubeconfig(folder: Path, cluster: dict[str, Any], mode: int = 0o600) -> Path:
    path = folder / "kubeconfig"
    document = {
        "clusters": [{"name": "edge", "cluster": cluster}],
        "contexts": [{"name": "edge", "context": {"cluster": "edge"}}],
        "current-context": "edge",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(mode)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sections", "mode", "remedy"),
    [
        (_rabbit("rabbit://ws:hidden@mq/"), 0o644, "every user can read it"),
        ({"keystone_authtoken": {"auth_type": "password", "password": "hidden"}}, 0o604, "every user can read it"),
        (_database("postgresql://ws:hidden@db/ws"), 0o644, "every user can read it"),
        ({}, 0o646, "every user can change it"),
        ({}, 0o660, "its group can change it"),
    ],
)
def test_a_configuration_file_that_others_can_read_or_change_is_named(configured, tmp_path, sections, mode, remedy):
    _only(find_loose_files(configured(sections, mode)), tmp_path, "configuration file", remedy)


@pytest.mark.parametrize(("sections", "mode"), [({}, 0o644), (_rabbit("rabbit://ws:hidden@mq/"), 0o640)])
def test_a_configuration_file_that_only_its_owner_changes_has_no_finding(configured, sections, mode):
    assert find_loose_files(configured(sections, mode)) == []


def test_a_kubeconfig_a_key_and_a_database_that_others_can_read_are_named(configured, tmp_path):
    kubeconfig = _kubeconfig(tmp_path, {"server": "https://k8s"}, 0o644)
    _only(
        find_loose_files(configured(_source("edge", "kubernetes", kubeconfig=kubeconfig))),
        tmp_path, "[source_edge] kubeconfig", "chmod 0640",
    )  # fmt: skip
    key = tmp_path / "key.pem"
    key.touch(mode=0o644)
    sections = _nats("tls://nats", tls_cert_file=tmp_path / "cert.pem", tls_key_file=key)
    _only(find_loose_files(configured(sections)), tmp_path, "[source_dcm] tls_key_file", "chmod 0640")
    (tmp_path / "watcher-sync.sqlite").touch(mode=0o644)
    _only(find_loose_files(configured({})), tmp_path, "[database] connection", "chmod 0640")


def test_an_outlets_key_and_a_file_with_passwords_of_kafka_that_others_can_read_are_named(configured, tmp_path):
    key = tmp_path / "key.pem"
    key.touch(mode=0o644)
    sections = _log("nats_jetstream", servers="tls://nats", tls_cert_file=tmp_path / "cert.pem", tls_key_file=key)
    _only(find_loose_files(configured(sections)), tmp_path, "[outlet_log] tls_key_file", "chmod 0640")
    sections = _log("kafka", servers="kafka", properties="sasl.username:ws,sasl.password:hidden")
    _only(find_loose_files(configured(sections, 0o644)), tmp_path, "configuration file", "every user can read it")


def test_a_policy_file_that_others_can_change_is_named(configured, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.touch()
    policy.chmod(0o644)
    assert find_loose_files(configured({})) == []
    policy.chmod(0o664)
    _only(find_loose_files(configured({})), tmp_path, "[oslo_policy] policy_file", "chmod go-w")


def test_a_state_directory_that_everyone_can_write_is_named(configured, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    _only(find_loose_files(configured({"DEFAULT": {"state_path": state}})), tmp_path, "state_path", "chmod o-w")


_BOUNDS = ("jwt_issuer", "jwt_audience")


def _watch(**options: Any) -> dict[str, dict[str, Any]]:
    return {"outlet_watch": {"auth_strategy": "jwt", **options}}


def test_a_watch_stream_on_other_machines_without_tls_is_a_finding(configured):
    (finding,) = find_insecure_transports(configured(_watch(host="192.0.2.1")))
    assert "[outlet_watch] tls_cert" in finding
    assert "set tls_cert and tls_key" in finding


@pytest.mark.parametrize(
    "sections", [{}, _watch(), _watch(host="192.0.2.1", tls_cert="c", tls_key="k"), _watch(enabled="false", host="::")]
)
def test_a_watch_stream_with_tls_or_on_this_machine_is_no_finding(configured, sections):
    assert find_insecure_transports(configured(sections)) == []


def test_a_watch_stream_without_authentication_is_a_finding(configured, tmp_path):
    (finding,) = (each for each in find_insecure_access(configured(_watch(auth_strategy="noauth"))) if "watch" in each)
    assert "[outlet_watch] auth_strategy" in finding
    assert str(tmp_path) in finding


def test_a_watch_stream_with_jwts_of_any_issuer_for_any_audience_is_a_finding(configured, tmp_path):
    found = find_insecure_access(configured(_watch(jwt_accept_any="true")))
    (finding,) = (each for each in found if "jwt" in each)
    assert finding.startswith(f"[outlet_watch] jwt_accept_any ({tmp_path}")
    assert "set jwt_audience or jwt_issuer" in finding
    off = {"jwt_accept_any": "true", "enabled": "false"}
    keystone = {"jwt_accept_any": "true", "auth_strategy": "keystone"}
    bound = [{"jwt_accept_any": accept, name: "us"} for accept in ("true", "false") for name in _BOUNDS]
    for harmless in (off, keystone, *bound):
        assert not [each for each in find_insecure_access(configured(_watch(**harmless))) if "jwt" in each]


@pytest.mark.parametrize("options", [{}, {"jwt_issuer": "", "jwt_audience": ""}])
def test_a_watch_stream_that_would_not_start_for_its_jwts_is_a_finding(configured, options):
    (finding,) = (each for each in find_insecure_access(configured(_watch(**options))) if "jwt" in each)
    assert "neither jwt_issuer nor jwt_audience is set, so API and outlet do not start" in finding


def test_a_key_of_the_watch_stream_that_others_can_read_is_a_finding(configured, tmp_path):
    key = tmp_path / "watch.key"
    key.write_text("secret")
    key.chmod(0o644)
    found = find_loose_files(configured(_watch(tls_key=key, jwt_key_files=key, jwt_algorithms="HS256")))
    assert [str(key) in each for each in found] == [True, True]
    key.chmod(0o640)
    assert find_loose_files(configured(_watch(tls_key=key))) == []
