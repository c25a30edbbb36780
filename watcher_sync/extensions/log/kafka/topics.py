# SPDX-License-Identifier: Apache-2.0
"""The two topics of an outlet on Kafka: the changes, and the current model, which Kafka compacts.

All records of an outlet are in partition 0 of their topic, because Kafka orders records within a partition only. What
is read here is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import confluent_kafka
import msgspec
from confluent_kafka import admin
from oslo_log import log as logging

from watcher_sync.extensions.log.base import OutletError

LOG = logging.getLogger(__name__)

PARTITION: Final = 0
MODEL_SUFFIX: Final = ".model"

_FIRST_STEP: Final = 8
_STEP_FACTOR: Final = 16
"""How fast the search for the last record goes back, over the markers of transactions."""


class KafkaTopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The topics as the configuration wants them."""

    changes: str
    create: bool
    replicas: int
    max_age: int
    """Seconds; 0: no limit."""
    max_bytes: int
    """0: no limit."""

    @property
    def model(self) -> str:
        """The compacted topic."""
        return self.changes + MODEL_SUFFIX

    def wrong_with_policy(self, topic: str, policy: str) -> str:
        """Why the ``cleanup.policy`` of a topic is not fit; empty: it is.

        A model that is also deleted by age loses the entities that have not changed for long.
        """
        wanted = "compact" if topic == self.model else "delete"
        return "" if policy == wanted else f"topic {topic}: its cleanup.policy is {policy}, not {wanted}"


class KafkaTopics:
    """The topics, for one thread.

    Each method raises KafkaException if the brokers do not do it.

    :param properties: of a client of librdkafka.
    :param timeout: seconds for each answer.
    """

    def __init__(self, spec: KafkaTopicSpec, properties: Mapping[str, Any], timeout: float) -> None:
        self.spec = spec
        self._properties = dict(properties)
        self._timeout = timeout

    def prepare(self) -> int | None:
        """Create the topics where that is wanted, and verify them.

        :returns: what :meth:`verify` does.
        :raises OutletError: as :meth:`verify`.
        """
        if self.spec.create:
            self._create(admin.AdminClient(self._properties))
        return self.verify()

    def verify(self) -> int | None:
        """Verify both topics. The brokers say how they are configured if the user may ask for it.

        :returns: bytes of the largest record that both take; None: unknown.
        :raises OutletError: a topic is missing, or Kafka discards something else of it than it should.
        """
        topics = (self.spec.changes, self.spec.model)
        with closing(self._consumer()) as consumer:
            for topic in topics:
                found = consumer.list_topics(topic, timeout=self._timeout)
                if (error := found.topics[topic].error) is not None:
                    raise OutletError(f"topic {topic}: {error.str()}")
        configs = list(self._configs(topics, next(iter(found.brokers))))
        for topic, config in zip(topics, configs, strict=True):
            if config and (wrong := self.spec.wrong_with_policy(topic, config["cleanup.policy"])):
                raise OutletError(wrong)
        return min((int(config["max.message.bytes"]) for config in configs if config), default=None)

    def last_headers(self) -> dict[str, str] | None:
        """The headers of the last change; None: there is none."""
        topic, back = self.spec.changes, _FIRST_STEP
        with closing(self._consumer()) as consumer:
            first, end = self._offsets(consumer, topic)
            while True:
                start = max(first, end - back)
                last = None
                for last in self._records(consumer, topic, start):  # noqa: B007 - the last one is what is wanted
                    pass
                if last is not None or start == first:
                    return None if last is None else _headers(last)
                back *= _STEP_FACTOR

    def keys(self) -> set[bytes]:
        """The keys of entities in the model."""
        found: set[bytes] = set()
        with closing(self._consumer()) as consumer:
            for record in self._records(consumer, self.spec.model, self._offsets(consumer, self.spec.model)[0]):
                key = record.key() or b""
                if record.value() is None:
                    found.discard(key)
                else:
                    found.add(key)
        return found

    def _create(self, client: admin.AdminClient) -> None:
        spec = self.spec
        common = {"min.insync.replicas": str(max(1, spec.replicas - 1))}
        limits = {"retention.ms": spec.max_age * 1000 or -1, "retention.bytes": spec.max_bytes or -1}
        compacted = {"cleanup.policy": "compact"}
        if spec.max_age:
            compacted["delete.retention.ms"] = str(spec.max_age * 1000)
        wanted = [
            admin.NewTopic(topic, 1, spec.replicas, config={**common, **own})
            for topic, own in (
                (spec.changes, {name: str(value) for name, value in limits.items()}),
                (spec.model, compacted),
            )
        ]
        for done in client.create_topics(wanted, request_timeout=self._timeout).values():
            try:
                done.result()
            except confluent_kafka.KafkaException as exc:
                if exc.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _configs(self, names: Sequence[str], broker: int) -> Iterator[dict[str, str]]:
        """How topics are configured; empty where the user may not know it."""
        topics = [admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name) for name in names]
        client = admin.AdminClient(self._properties)
        for topic, answer in client.describe_configs(topics, request_timeout=self._timeout, broker=broker).items():
            try:
                yield {name: entry.value for name, entry in answer.result().items()}
            except confluent_kafka.KafkaException as exc:
                LOG.warning("topic %s: its configuration is unknown: %s", topic.name, exc.args[0].str())
                yield {}

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                **self._properties,
                "group.id": "watcher-sync",  # needed, and never joined
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 10,  # the end of a topic is read, too
            }
        )

    def _offsets(self, consumer: confluent_kafka.Consumer, topic: str) -> tuple[int, int]:
        """The first offset, and the one after the last."""
        found = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, PARTITION), timeout=self._timeout)
        if found is None:
            raise OutletError(f"topic {topic}: no answer in time")
        first, end = found
        return first, end

    def _records(self, consumer: confluent_kafka.Consumer, topic: str, start: int) -> Iterator[confluent_kafka.Message]:
        """The records from an offset to the end.

        :raises OutletError: none came for the timeout.
        """
        consumer.assign([confluent_kafka.TopicPartition(topic, PARTITION, start)])
        while (record := consumer.poll(self._timeout)) is not None:
            if (error := record.error()) is None:
                yield record
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return
            else:
                raise confluent_kafka.KafkaException(error)
        raise OutletError(f"topic {topic}: no answer in time")


def _headers(record: confluent_kafka.Message) -> dict[str, str]:
    found = record.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return {name: value.decode(errors="replace") for name, value in pairs if isinstance(value, bytes)}
