# SPDX-License-Identifier: Apache-2.0
"""The rabbitmq source takes oslo.messaging's URL and options, checks them, and shows no secret."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.conf import engine
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.openstack.source.rabbitmq.queues import ClassicQueue, Queue, QuorumQueue
from watcher_sync.extensions.openstack.source.rabbitmq.settings import RabbitMQSettings
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import SourceState
from watcher_sync.transports.rabbitmq.broker import BrokerHost

URL = "rabbit://someone:hush%2Dhush@one:5671,other:hush-2@[::1]/cell%201"


def make_conf(
    files: Sequence[Path] = (), *, driver: type[RabbitMQSource] = RabbitMQSource, **options: Any
) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(engine.OPTS, group=engine.GROUP)
    conf.register_opts(driver.options, group="source_nova")
    conf([], default_config_files=[str(file) for file in files])
    for option, value in options.items():
        conf.set_override(option, value, group="source_nova")
    return conf


def make_queue(**options: Any) -> Queue:
    return RabbitMQSource("nova", make_conf(**{"transport_url": URL, **options})).queue


def make_settings(files: Sequence[Path] = (), **options: Any) -> RabbitMQSettings:
    return RabbitMQSettings("nova", make_conf(files, **{"transport_url": URL, **options}))


def test_hosts_logins_and_virtual_host_come_from_the_url() -> None:
    broker = make_settings().broker
    assert broker.hosts == [BrokerHost("one", 5671, "someone", "hush-hush"), BrokerHost("::1", 5672, "other", "hush-2")]
    assert broker.virtual_host == "cell 1"
    assert sorted(map(str, broker.shuffled())) == ["[::1]:5672", "one:5671"]
    assert make_settings(transport_url="rabbit://").broker.hosts == [BrokerHost("localhost", 5672, "guest", "guest")]
    assert make_settings(transport_url="rabbit://h/").broker.virtual_host == "/"


def test_options_of_the_group_apply_and_the_query_of_the_url_wins(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text(
        "[oslo_messaging_rabbit]\nrabbit_qos_prefetch_count = 7\namqp_durable_queues = true\nssl = true\n"
        "heartbeat_timeout_threshold = 20\n"
    )
    made = make_settings([file], transport_url=f"{URL}?rabbit_qos_prefetch_count=9&ssl=false&kombu_reconnect_delay=2")
    options = made.broker.options
    assert (made.prefetch, options["ssl"], options["heartbeat_timeout_threshold"]) == (9, False, 20)
    assert options["amqp_durable_queues"] is True
    assert make_settings([file], prefetch=11).prefetch == 11
    assert make_settings().prefetch == 12 * 500


def test_the_prefetch_of_a_file_is_meant_for_rpc_and_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("[oslo_messaging_rabbit]\nrabbit_qos_prefetch_count = 1\n")
    assert make_settings([file]).prefetch == 12 * 500


def test_a_wrong_value_of_the_group_is_refused_naming_the_file_the_section_and_the_option(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("[oslo_messaging_rabbit]\nheartbeat_timeout_threshold = soon\n")
    with pytest.raises(ConfigError, match=rf"{file}: \[oslo_messaging_rabbit\] heartbeat_timeout_threshold: "):
        make_settings([file])


@pytest.mark.parametrize(
    ("given", "query", "kind"),
    [
        (None, "", ClassicQueue),
        (None, "?rabbit_quorum_queue=true", QuorumQueue),
        ("classic", "?rabbit_quorum_queue=true", ClassicQueue),
        ("quorum", "", QuorumQueue),
    ],
)
def test_the_type_of_the_queue_is_configured_or_that_of_oslo_messaging(
    given: str | None, query: str, kind: type
) -> None:
    assert type(make_queue(queue_type=given, transport_url=URL + query)) is kind


def test_the_arguments_of_a_quorum_queue_are_those_of_oslo_messaging() -> None:
    url = f"{URL}?rabbit_quorum_queue=1&rabbit_quorum_delivery_limit=3&rabbit_quorum_max_memory_length=5"
    queue = make_queue(transport_url=url)
    assert queue.arguments() == {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-max-in-memory-length": 5}
    classic = make_queue()
    assert (classic.arguments(), classic.consume_arguments()) == ({}, {})
    assert make_queue(transport_url=f"{URL}?enable_cancel_on_failover=1").consume_arguments() == {
        "x-cancel-on-ha-failover": True
    }


@pytest.mark.parametrize(
    ("redelivered", "headers", "deliveries"),
    [
        (False, None, 1),
        (True, {}, 2),
        (True, {"x-delivery-count": 4}, 5),
        # RabbitMQ 4.3, after a nack; then after three of them and a lost connection:
        (True, {"x-acquired-count": 1}, 2),
        (True, {"x-acquired-count": 4, "x-delivery-count": 1}, 5),
    ],
)
def test_a_quorum_queue_counts_deliveries_and_a_classic_one_says_only_more_than_once(
    redelivered: bool, headers: dict[str, Any] | None, deliveries: int
) -> None:
    assert make_queue().deliveries(redelivered, headers) == deliveries


@pytest.mark.parametrize(
    "bad",
    [
        None, "", "no-scheme", "rabbit://guest:hush-hush@host:port/", "kafka://guest:hush-hush@host/",
        "rabbit://guest:hush-hush@host/?sls=1", "rabbit://guest:hush-hush@host/?ssl=perhaps",
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_naming_the_option_and_not_the_password(bad: str | None) -> None:
    with pytest.raises(ConfigError, match=r"\[source_nova\] transport_url") as caught:
        make_settings(transport_url=bad)
    assert "hush-hush" not in str(caught.value)


@pytest.mark.parametrize("option", ["pool", "exchange", "topics"])
def test_an_empty_name_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[source_nova\] {option}"):
        make_settings(**{option: [] if option == "topics" else ""})


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.slow
def test_with_the_broker_down_start_returns_at_once_and_the_status_names_hosts_but_no_password(
    closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"rabbit://someone:hush-hush@127.0.0.1:{closed_port},someone:hush-hush@localhost:{closed_port}/"
    source = RabbitMQSource("nova", make_conf(transport_url=url))
    begin = time.monotonic()
    source.start(lambda events: None)
    assert time.monotonic() - begin < deadline(20)
    status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
    assert "refused" in status.detail
    assert f"127.0.0.1:{closed_port}" in status.detail
    assert f"localhost:{closed_port}" in status.detail
    attempts = Deadline(1.0)
    wait_until(lambda: attempts.is_over)
    begin = time.monotonic()
    source.stop(begin + 60)
    assert time.monotonic() - begin < deadline(30)
    assert source.status().state is SourceState.STOPPED
    assert [record.levelname for record in caplog.records if record.levelno > logging.DEBUG] == ["WARNING"]
    assert "hush-hush" not in status.detail + caplog.text


def test_a_probe_of_a_broker_that_is_down_says_why(closed_port: int) -> None:
    source = RabbitMQSource("nova", make_conf(transport_url=f"rabbit://u:hush-hush@127.0.0.1:{closed_port}/"))
    with pytest.raises(SourceError, match="refused") as caught:
        source.probe()
    assert "hush-hush" not in str(caught.value)
