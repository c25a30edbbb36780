# SPDX-License-Identifier: Apache-2.0
"""Who a token of the watch stream belongs to, and what the API's policy allows."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_config import cfg

from watcher_sync.conf import keystone, opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.watch import callers, settings
from watcher_sync.extensions.watch.authentication import AuthenticationUnavailable, Authenticator
from watcher_sync.extensions.watch.bearer_tokens import InvalidToken
from watcher_sync.testing.kinds import builtin_kinds

PROJECT = "f" * 32
EXPIRES = datetime.datetime(2126, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    """With a Keystone that no test contacts, because the fixture knows all tokens."""
    made = cfg.ConfigOpts()
    opts.register_opts(made)
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override("state_path", str(tmp_path))
    keystone.register_opts(made)
    made.set_override("auth_url", "http://127.0.0.1:1/v3", group=keystone.GROUP)
    return made


@pytest.fixture
def authenticator(conf: cfg.ConfigOpts) -> Authenticator:
    return callers.make_authenticator(conf, builtin_kinds())


@pytest.fixture
def token() -> Iterator[Callable[..., str]]:
    """Adds tokens to what keystonemiddleware knows."""
    with AuthTokenFixture() as fixture:

        def add(*roles: str, project_id: str | None = PROJECT, **more: Any) -> str:
            made = uuid.uuid4().hex
            fixture.add_token_data(
                token_id=made, user_id="u1", project_id=project_id, role_list=list(roles), expires=EXPIRES, **more
            )
            return made

        yield add


def test_a_reader_of_a_project_sees_its_project_without_hosts(
    token: Callable[..., str], authenticator: Authenticator
) -> None:
    caller = authenticator.authenticate(token("reader"))
    assert (caller.user_id, caller.project_id, caller.may_subscribe) == ("u1", PROJECT, True)
    assert caller.reader.project_id == PROJECT
    assert "host" in caller.reader.hidden["instance"]
    assert caller.may_watch(PROJECT)
    assert not caller.may_watch("other")
    assert caller.expires_at == EXPIRES.timestamp()


def test_an_administrator_sees_everything(token: Callable[..., str], authenticator: Authenticator) -> None:
    caller = authenticator.authenticate(token("admin"))
    assert caller.reader.project_id is None
    assert not caller.reader.hidden
    assert caller.may_watch("other")
    assert caller.may_watch(None)


def test_a_caller_without_a_role_may_not_subscribe(token: Callable[..., str], authenticator: Authenticator) -> None:
    assert not authenticator.authenticate(token("load-balancer_observer")).may_subscribe


@pytest.mark.parametrize("text", ["", "unknown", "caf\u00e9", "a\nb"])
def test_a_token_that_keystone_does_not_know_is_invalid(
    token: Callable[..., str], authenticator: Authenticator, text: str
) -> None:
    with pytest.raises(InvalidToken):
        authenticator.authenticate(text)


def test_callers_with_equal_rights_share_their_events(token: Callable[..., str], authenticator: Authenticator) -> None:
    one, same = (authenticator.authenticate(token("reader")) for _ in range(2))
    other = authenticator.authenticate(token("reader", project_id="e" * 32))
    admin = authenticator.authenticate(token("admin"))
    assert one.rights == same.rights
    assert len({one.rights, other.rights, admin.rights}) == 3


def test_without_keystone_a_token_is_neither_good_nor_bad(conf: cfg.ConfigOpts) -> None:
    conf.set_override("http_request_max_retries", 0, group=keystone.GROUP)
    for name in ("username", "password", "project_name", "user_domain_id", "project_domain_id"):
        conf.set_override(name, "x", group=keystone.GROUP)
    with pytest.raises(AuthenticationUnavailable):
        callers.make_authenticator(conf, builtin_kinds()).authenticate("a" * 32)


def test_without_authentication_the_server_stays_on_the_loopback_interface(conf: cfg.ConfigOpts) -> None:
    conf.set_override("auth_strategy", "noauth", group="outlet_watch")
    settings.check(conf)
    conf.set_override("host", "192.0.2.1", group="outlet_watch")
    with pytest.raises(ConfigError, match="noauth_allow_remote"):
        settings.check(conf)
    conf.set_override("noauth_allow_remote", True, group="outlet_watch")
    settings.check(conf)


def test_the_strategy_is_that_of_the_api_by_default(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(ConfigError, match="keystone_authtoken"):
        settings.check(conf)
    conf.set_override("auth_strategy", "noauth", group="api")
    settings.check(conf)
    assert callers.make_authenticator(conf, builtin_kinds()).authenticate("").reader.project_id is None
