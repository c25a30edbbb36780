# SPDX-License-Identifier: Apache-2.0
"""The group ``[outlet_webhook]`` serves as the settings of deliveries."""

from __future__ import annotations

import msgspec

from watcher_sync.extensions.webhooks.deliveries import DeliverySettings
from watcher_sync.extensions.webhooks.options import OPTS


def test_each_setting_of_deliveries_has_the_default_of_its_option() -> None:
    defaults = {option.dest: option.default for option in OPTS}
    settings = msgspec.structs.asdict(DeliverySettings())
    assert {name: defaults[name] or value for name, value in settings.items() if name in defaults} == settings
