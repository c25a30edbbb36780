# SPDX-License-Identifier: Apache-2.0
"""The reconciler compares the whole model, so it refuses a configuration with a source that follows a site."""

from __future__ import annotations

import pytest

from tests.nova_sites import NovaSite
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.federation.handler.handler import FederationHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler


@pytest.mark.parametrize("driver", ["federation", "federation_log"])
def test_a_source_that_follows_a_site_is_an_error_of_the_configuration(site: NovaSite, driver: str) -> None:
    site.dispatcher = Dispatcher([("nova", NovaHandler()), ("federation", FederationHandler())])
    site.conf.set_override("enabled_sources", ["north"], group="engine")
    opts.register_source(site.conf, "north", [])
    site.conf.set_override("driver", driver, group="source_north")
    with pytest.raises(ConfigError, match=r"^\[source_north\] driver: \[reconcile_nova\] compares the whole model"):
        site.reconciler()


def test_other_sources_are_none(site: NovaSite) -> None:
    site.conf.set_override("enabled_sources", ["cell1"], group="engine")
    opts.register_source(site.conf, "cell1", [])
    site.conf.set_override("driver", "rabbitmq", group="source_cell1")
    assert site.reconciler().scopes() == ("nova", "nova-changes")
