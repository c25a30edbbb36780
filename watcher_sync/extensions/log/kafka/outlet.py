# SPDX-License-Identifier: Apache-2.0
"""The driver ``kafka``: the changes and the current model as two topics of Kafka, written in one transaction.

Kafka itself is the fence. The transactional.id is that of the partition and outlet. Opening an outlet makes the brokers
refuse its former publisher, and abort what that one had not committed.

The topic of the changes tells the position. A reader of committed records sees each change once, in order, none
missing. The current model has one key an entity. A deletion is a record without value, so Kafka removes the key.

librdkafka has threads of its own. The client is an extra, and is imported when an outlet is made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_config import cfg

from watcher_sync.conf.findings import host_in, is_local, place
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import (
    SNAPSHOT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    ChangeTooLarge,
    LogChange,
    LogPositions,
    Outlet,
    OutletDeposed,
    OutletError,
)
from watcher_sync.extensions.log.positions import headers_of, positions_after, positions_in

if TYPE_CHECKING:
    import confluent_kafka


_MAX_RECORD: Final = "message.max.bytes"
_DEFAULT_RECORD_BYTES: Final = 1_000_000
"""Of librdkafka; that of brokers is greater."""
_RECORD_OVERHEAD: Final = 4096
"""More bytes than a record and its batch have beside the body: the key, the headers, the framing."""

_VERIFIES: Final = {"enable.ssl.certificate.verification": "true", "ssl.endpoint.identification.algorithm": "https"}
"""Properties of librdkafka that verify a broker, with their defaults."""


class KafkaOutlet(Outlet):
    """The driver ``kafka``."""

    limit_names: ClassVar[str] = "max.message.bytes of both topics, and message.max.bytes in properties where it is set"

    options: ClassVar[list[cfg.Opt]] = [
        cfg.ListOpt("servers", default=["localhost:9092"], help="Brokers to ask for the others, as ``host:port``."),
        cfg.StrOpt(
            "topic",
            help="""
The topic of the changes. That of the current model is ``<topic>.model``. Both contain one partition of this project.

Default: ``watcher-sync.<partition>``.
""",
        ),
        cfg.StrOpt(
            "stream_mode",
            default="verify",
            choices=[
                ("verify", "Both topics must exist. Kafka must compact the second one, and not the first one."),
                ("create", "Create a topic that does not exist. An existing topic is verified, and never changed."),
            ],
            help="What to do if a topic does not exist.",
        ),
        cfg.IntOpt(
            "replicas",
            default=3,
            min=1,
            help="""
Brokers that store each record. All but one of them must have stored it before it counts. Used when a topic is created.
""",
        ),
        cfg.IntOpt(
            "max_age",
            default=604_800,
            min=0,
            advanced=True,
            help="""
Seconds after which Kafka discards a change, and the mark of a deletion in the model. 0: it discards no change.
Used when a topic is created.
""",
        ),
        cfg.IntOpt(
            "max_bytes",
            default=0,
            min=0,
            advanced=True,
            help="Bytes above which Kafka discards the oldest changes. 0: no limit. Used when the topic is created.",
        ),
        cfg.DictOpt(
            "properties",
            default={},
            secret=True,
            help="""
More properties of librdkafka, such as ``security.protocol:SASL_SSL,sasl.username:u,sasl.password:p``.
""",
        ),
        cfg.FloatOpt(
            "timeout",
            default=30.0,
            min=1,
            max=300,
            advanced=True,
            help="Seconds in which the brokers must have committed what one call publishes, and answer a request.",
        ),
    ]

    @staticmethod
    def insecure_transports(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
        """Findings about brokers without TLS, and properties with which they are not verified."""
        group = conf[section]
        hosts = [host_in(server.rpartition("://")[2]) for server in group.servers]
        remote = [host for host in hosts if host and not is_local(host)]
        if not remote:
            return
        properties = {name: value.lower() for name, value in group.properties.items()}
        if properties.get("security.protocol") not in ("ssl", "sasl_ssl"):
            where = place(conf, "servers", section)
            yield (
                f"{where}: messages and credentials for {remote[0]} cross the network without TLS; set "
                "security.protocol:SASL_SSL in properties."
            )
        for name, verified in _VERIFIES.items():
            if properties.get(name, verified) != verified:
                where = place(conf, "properties", section)
                yield f"{where}: {name} lets another server stand in for {remote[0]}; remove it."

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: the extra is not installed, or an option is wrong."""
        super().__init__(name, conf)
        section = f"outlet_{name}"
        try:
            # Imported here: an extra, and the options are listed without it.
            import confluent_kafka

            from watcher_sync.extensions.log.kafka import topics
        except ImportError:
            raise ConfigError(f"[{section}] driver: kafka needs the extra: pip install 'watcher-sync[kafka]'") from None
        if not self.group.servers:
            raise ConfigError(f"[{section}] servers: is empty")
        self._timeout: float = self.group.timeout
        self._library_log = _LibraryLog(name)
        self._client: dict[str, Any] = {
            **self.group.properties,
            "bootstrap.servers": ",".join(self.group.servers),
            "logger": self._library_log.logger,
        }
        spec = topics.KafkaTopicSpec(
            changes=self.group.topic or f"watcher-sync.{self.partition}",
            create=self.group.stream_mode == "create",
            replicas=self.group.replicas,
            max_age=self.group.max_age,
            max_bytes=self.group.max_bytes,
        )
        self._topics = topics.KafkaTopics(spec, self._client, self._timeout)
        self._kafka_partition = topics.PARTITION
        self._library = confluent_kafka
        self._producer: confluent_kafka.Producer | None = None
        self._in_snapshot: set[bytes] = set()
        """The keys of the last snapshot that was begun."""

    def open(self, position: LogPositions) -> LogPositions:
        """Refuse every publisher before this one, and read the last change.

        :raises OutletError: no broker answers, or a topic is not as configured.
        """
        self.close()
        self._library_log.last = ""
        try:
            largest = self._largest(self._topics.prepare())
            self.limit = largest - _RECORD_OVERHEAD
            self._producer = self._library.Producer(
                {
                    **self._client,
                    _MAX_RECORD: largest,
                    "transactional.id": f"watcher-sync.{self.partition}.{self.name}",
                    "transaction.timeout.ms": int(self._timeout * 1000),
                    "queue.buffering.max.messages": 0,
                    "queue.buffering.max.kbytes": 2_147_483_647,
                }
            )
            self._producer.init_transactions(self._timeout)
            headers = self._topics.last_headers()
        except self._library.KafkaException as exc:
            self.close()
            raise self._error(exc) from exc
        return {} if headers is None else positions_in(headers, self.partition)

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish the changes in one transaction; the end of a snapshot begins another one.

        :raises OutletDeposed: the brokers refuse this publisher, because another one has opened the outlet.
        :raises OutletError: it is not known what is committed.
        """
        if self._producer is None:
            raise OutletError("not connected")
        try:
            for part in _split_at_ends(changes):
                self._commit(self._producer, part)
        except self._library.KafkaException as exc:
            raise self._error(exc) from exc
        return positions_after(changes[-1])

    def close(self) -> None:
        """Disconnect. What is not committed is aborted by the brokers: at the next opening, or after the timeout."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(self._library.KafkaException):
                producer.purge()

    def probe(self) -> int:
        """Ask a broker for both topics.

        :raises OutletError: no broker answers, or a topic is missing.
        """
        try:
            return self._largest(self._topics.verify()) - _RECORD_OVERHEAD
        except self._library.KafkaException as exc:
            raise self._error(exc) from exc

    def _largest(self, of_topics: int | None) -> int:
        """Bytes of the largest record: as both topics take it, unless the properties say less."""
        configured = self.group.properties.get(_MAX_RECORD, of_topics or _DEFAULT_RECORD_BYTES)
        return min(of_topics or int(configured), int(configured))

    def _commit(self, producer: confluent_kafka.Producer, changes: Sequence[LogChange]) -> None:
        producer.begin_transaction()
        if changes[0].change == SNAPSHOT_END:
            for stale in self._topics.keys() - self._in_snapshot:
                self._produce(producer, self._topics.spec.model, stale, None, changes[0])
        for change in changes:
            key, body = (change.key.encode() if change.kind else None), change.body
            if change.change == SNAPSHOT_BEGIN:
                self._in_snapshot = set()
            elif change.change == SNAPSHOT and key is not None:
                self._in_snapshot.add(key)
            self._produce(producer, self._topics.spec.changes, key, body, change)
            if key is not None:
                self._produce(
                    producer, self._topics.spec.model, key, body if change.after is not None else None, change
                )
        producer.commit_transaction(self._timeout)

    def _produce(
        self, producer: confluent_kafka.Producer, topic: str, key: bytes | None, value: bytes | None, change: LogChange
    ) -> None:
        headers: list[tuple[str, str | bytes | None]] = [*headers_of(change).items()]
        producer.produce(topic, key=key, value=value, partition=self._kafka_partition, headers=headers)

    def _error(self, exc: Exception) -> OutletError:
        error = exc.args[0]
        codes = self._library.KafkaError
        if error.code() in (codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH):
            return OutletDeposed(f"another publisher has opened the outlet: {error.str()}")
        failure = f"Kafka: {error.name()}: {error.str()}{self._library_log.last}"
        is_too_large = error.code() in (codes.MSG_SIZE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE)
        return (ChangeTooLarge if is_too_large else OutletError)(failure)


class _LibraryLog(logging.Handler):
    """The last line that librdkafka logs. It logs each attempt to connect, and often only that says why one failed."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.last = ""
        """``: <the line>``; empty if there is none."""
        self.logger = logging.getLogger(f"{__name__}.{name}")
        self.logger.propagate = False
        self.logger.handlers = [self]

    def emit(self, record: logging.LogRecord) -> None:
        """Store the line."""
        self.last = f": {record.getMessage()}"


def _split_at_ends(changes: Sequence[LogChange]) -> Iterator[Sequence[LogChange]]:
    """Parts that begin at the end of a snapshot: all before must be committed, so that the model can be read."""
    start = 0
    for index, change in enumerate(changes):
        if change.change == SNAPSHOT_END and index > start:
            yield changes[start:index]
            start = index
    yield changes[start:]
