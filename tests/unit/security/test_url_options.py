# SPDX-License-Identifier: Apache-2.0
"""Each option with a URL is examined by the upgrade check, or has a reason why it carries no secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from openstack.config import loader
from oslo_db import options as db_options
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.cmd.checks.insecure_settings import find_insecure_transports  # noqa: E402
from watcher_sync.conf import opts  # noqa: E402

_URL: Final = re.compile(r"(^|_)(ur[il]|endpoint|servers|connection|address)$")

_WITHOUT_SECRETS: Final = {
    "asyncio_connection": "this service does not read it",
    "asyncio_slave_connection": "this service does not read it",
    "slave_connection": "this service does not read it",
    "memcached_servers": "encrypted by memcache_security_strategy, or none of our passwords",
    "www_authenticate_uri": "a text for clients, to which this service sends nothing",
    "redirect_uri": "the address at which this machine waits for a browser",
    "[account none] endpoint": "it sends no credentials",
    "[tracing] endpoint": "spans have no credentials; headers with some come from the environment",
    "[source_federation] address": "stream_tls decides; a test of its own",
}
"""Option -> why it is not examined."""

_VALUES: Final = {
    "connection": "mysql+pymysql://ws:hidden@db/ws",
    "transport_url": "rabbit://ws:hidden@mq/",
    "servers": "remote",
}
"""Option -> a URL of another machine without TLS, where http://remote is none."""

_PLUGINS: Final = sorted(set(loading.get_available_plugin_names()) - {"v3adfspassword", "v3samlpassword", "v3kerberos"})


def _declared() -> list[tuple[str, str]]:
    """(section, option) of each option with a URL; an account's section is ``account <auth_type>``."""
    sections = [*opts.list_opts(), ("database", db_options.database_opts), *auth_token.list_opts()]
    sections += [(f"account {name}", loading.get_auth_plugin_conf_options(name)) for name in _PLUGINS]
    found = {(section, option.dest) for section, options in sections for option in options if _URL.search(option.dest)}
    return sorted(found)


def _is_exempt(section: str, option: str) -> bool:
    return option in _WITHOUT_SECRETS or f"[{section}] {option}" in _WITHOUT_SECRETS


def _sections(section: str, option: str) -> dict[str, dict[str, Any]]:
    """A configuration that uses the option, with a URL of another machine without TLS."""
    value = {option: _VALUES.get(option, "http://remote")}
    prefix, _, name = section.partition("_")
    if section.startswith("account "):
        plugin = section.removeprefix("account ")
        needed = {o.dest: "https://needed" for o in loading.get_auth_plugin_conf_options(plugin) if o.required}
        return {"reconcile_nova": {"enabled": True, "auth_type": plugin, **needed, **value}}
    if section == "reconcile_nova":
        return {section: {"enabled": True, "auth_type": "password", **value}}
    if prefix == "source":
        return {"engine": {"enabled_sources": name}, section: {"driver": name, **value}}
    if prefix == "outlet":
        return {"outlets": {"enabled": name}, section: {"driver": name, **value}}
    return {section: value}


def _findings(folder: Path, sections: dict[str, dict[str, Any]]) -> list[str]:
    path = folder / "ws.conf"
    lines = (f"[{name}]\n" + "".join(f"{o} = {v}\n" for o, v in options.items()) for name, options in sections.items())
    path.write_text(f"[DEFAULT]\nstate_path = {folder}\n" + "".join(lines))
    return find_insecure_transports(process.make_conf([f"--config-file={path}"], prog="test"))


@pytest.mark.parametrize(("section", "option"), [place for place in _declared() if not _is_exempt(*place)])
def test_a_url_option_of_another_machine_without_tls_is_a_finding(tmp_path: Path, section: str, option: str) -> None:
    place = f"[{'reconcile_nova' if section.startswith('account ') else section}] {option} "
    found = _findings(tmp_path, _sections(section, option))
    assert [line for line in found if line.startswith(place)], found
    assert "hidden" not in "".join(found)


def test_each_reason_is_that_of_an_option_which_exists() -> None:
    declared = {name for section, option in _declared() for name in (option, f"[{section}] {option}")}
    assert _WITHOUT_SECRETS.keys() <= declared


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "[::1]:5000", "localhost"])
def test_an_account_of_this_machine_is_no_finding(tmp_path: Path, host: str) -> None:
    account = {"enabled": True, "auth_type": "password", "auth_url": f"http://{host}/v3"}
    assert _findings(tmp_path, {"reconcile_nova": account}) == []


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ("auth: {auth_url: 'http://keystone/v3', password: hidden}", "auth_url"),
        (
            "auth: {auth_url: 'https://keystone/v3'}\n    compute_endpoint_override: http://nova",
            "compute_endpoint_override",
        ),
        ("auth: {auth_url: 'http://127.0.0.1/v3', password: hidden}", None),
        ("auth: {auth_url: 'https://keystone/v3', password: hidden}\n    verify: false", "verify"),
        ("auth: {auth_url: 'https://keystone/v3', password: hidden}\n    insecure: true", "verify"),
    ],
)
def test_a_cloud_of_clouds_yaml_without_verified_tls_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, finding: str | None
) -> None:
    clouds = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(clouds)])
    clouds.write_text(f"clouds:\n  north:\n    {options}\n")
    found = _findings(tmp_path, {"reconcile_nova": {"enabled": True, "cloud": "north"}})
    expected = (
        [] if finding is None else [f"[reconcile_nova] cloud ({tmp_path}/ws.conf): {finding} of north in clouds.yaml:"]
    )
    assert [line[: line.index("clouds.yaml:") + 12] for line in found] == expected
    assert "hidden" not in "".join(found)
