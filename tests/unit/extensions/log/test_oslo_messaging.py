# SPDX-License-Identifier: Apache-2.0
"""The options of the driver ``oslo_messaging``."""

from __future__ import annotations

import pytest

from tests.functional.log.publishing import make_outlet
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.oslo_messaging.outlet import OsloMessagingOutlet


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"transport_url": None}, "transport_url: not set"),
        ({"transport_url": "kafka://host:9092/"}, "kafka:// is not for this driver"),
        ({"format": "debezium"}, "format: has no meaning here"),
        ({"topics": []}, "topics: is empty"),
        ({"exchange": ""}, "exchange: is empty"),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_its_name(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\[outlet_bus\] .*{complaint}"):
        make_outlet(OsloMessagingOutlet, **{"transport_url": "rabbit://user:password@host/", **options})
