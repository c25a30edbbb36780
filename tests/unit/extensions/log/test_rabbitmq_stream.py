# SPDX-License-Identifier: Apache-2.0
"""What the driver ``rabbitmq_stream`` refuses."""

from __future__ import annotations

import sys

import pytest

from tests.functional.log.publishing import make_outlet
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.rabbitmq_stream.outlet import RabbitMQStreamOutlet


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "watcher_sync.extensions.log.rabbitmq_stream.publisher", raising=False)
    monkeypatch.delattr("watcher_sync.extensions.log.rabbitmq_stream.publisher", raising=False)
    monkeypatch.setitem(sys.modules, "rstream", None)
    with pytest.raises(ConfigError, match=r"\[outlet_bus\] driver: .*watcher-sync\[rabbitmq-stream\]"):
        make_outlet(RabbitMQStreamOutlet, transport_url="rabbit://host/")


def test_a_url_without_a_broker_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[outlet_bus\] transport_url: not set"):
        make_outlet(RabbitMQStreamOutlet)
