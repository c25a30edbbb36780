# SPDX-License-Identifier: Apache-2.0
"""An extension authenticates requests by credentials that the core does not know."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Client
from watcher_sync import extension
from watcher_sync.api.http.request_context import CLAIMS, Claims
from watcher_sync.assembly.api import make_application
from watcher_sync.exceptions import ConfigError
from watcher_sync.extension import Extension


class Badges(Extension):
    """A request with a badge is one of a reader; the others are authenticated as without the extension."""

    def authentication(self, conf):
        def wrap(unchecked, checked):
            def wrapped(environ, start_response):
                badge = environ.get("HTTP_X_BADGE")
                if badge is None:
                    return checked(environ, start_response)
                environ[CLAIMS] = Claims(badge, "p", ("reader",), None, 2e9)
                return unchecked(environ, start_response)

            return wrapped

        return [wrap]


class Unusable(Extension):
    """Its configuration cannot work."""

    def authentication(self, conf):
        raise ConfigError("[badges] file: not set")


@pytest.fixture
def install(monkeypatch):
    installed = extension.load_extensions()
    return lambda added: monkeypatch.setattr(extension, "load_extensions", lambda: {**installed, "badges": added})


def test_a_request_belongs_to_the_caller_that_an_extension_names(conf, store, install):
    install(Badges())
    client = Client(make_application(conf, store))
    seen = [client.simulate_get("/v1/sources", headers=each).status_code for each in ({}, {"X-Badge": "7"})]
    assert seen == [200, 403]


def test_the_api_does_not_start_with_an_authentication_that_cannot_work(conf, store, install):
    install(Unusable())
    with pytest.raises(ConfigError, match="badges"):
        make_application(conf, store)
