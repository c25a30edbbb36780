# SPDX-License-Identifier: Apache-2.0
"""What the driver ``kafka`` refuses, and which error of Kafka says that another publisher has opened the outlet."""

from __future__ import annotations

import sys

import confluent_kafka
import pytest

from tests.functional.log.publishing import make_outlet
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import OutletDeposed, OutletError
from watcher_sync.extensions.log.kafka.outlet import KafkaOutlet
from watcher_sync.extensions.log.kafka.topics import KafkaTopicSpec


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (confluent_kafka.KafkaError._FENCED, OutletDeposed),
        (confluent_kafka.KafkaError.PRODUCER_FENCED, OutletDeposed),
        (confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH, OutletDeposed),
        (confluent_kafka.KafkaError._TIMED_OUT, OutletError),
    ],
)
def test_a_fenced_producer_is_deposed(code: int, expected: type[OutletError]) -> None:
    error = make_outlet(KafkaOutlet)._error(confluent_kafka.KafkaException(confluent_kafka.KafkaError(code)))
    assert type(error) is expected


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"\[outlet_bus\] driver: kafka needs the extra: .*watcher-sync\[kafka\]"):
        make_outlet(KafkaOutlet)


def test_a_property_that_librdkafka_does_not_know_is_an_error_that_names_it() -> None:
    with pytest.raises(OutletError, match=r'No such configuration property: "no\.such"'):
        make_outlet(KafkaOutlet, properties={"no.such": "1"}).open({})


@pytest.mark.parametrize(
    ("of_topics", "properties", "largest"),
    [
        (None, {}, 1_000_000),
        (None, {"message.max.bytes": "5000000"}, 5_000_000),
        (5_000_000, {}, 5_000_000),
        (5_000_000, {"message.max.bytes": "2000000"}, 2_000_000),
        (500_000, {"message.max.bytes": "2000000"}, 500_000),
    ],
)
def test_a_record_is_at_most_what_the_topics_take_and_the_properties_allow(
    of_topics: int | None, properties: dict[str, str], largest: int
) -> None:
    outlet = make_outlet(KafkaOutlet, properties=properties)
    assert outlet._largest(of_topics) == largest


@pytest.mark.parametrize(("topic", "fit"), [("watcher-sync.north", "delete"), ("watcher-sync.north.model", "compact")])
def test_a_topic_with_another_policy_is_refused_also_if_it_has_both(topic: str, fit: str) -> None:
    spec = KafkaTopicSpec(changes="watcher-sync.north", create=False, replicas=1, max_age=0, max_bytes=0)
    found = {policy: spec.wrong_with_policy(topic, policy) for policy in ("delete", "compact", "compact,delete")}
    assert [policy for policy, wrong in found.items() if not wrong] == [fit]
    assert found["compact,delete"] == f"topic {topic}: its cleanup.policy is compact,delete, not {fit}"
