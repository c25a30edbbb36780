# SPDX-License-Identifier: Apache-2.0
"""The oslo.messaging source without a broker: in process, and without eventlet."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from tests.waiting import deadline, wait_until
from watcher_sync.events import Actor, Event, TraceContext
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.source.notifier_options import PRIORITIES
from watcher_sync.extensions.openstack.source.oslo_messaging import OsloMessagingSource
from watcher_sync.sources.base import SourceState

ROOT = Path(__file__).parents[5]


def make_source(files: Sequence[Path] = (), **options: Any) -> OsloMessagingSource:
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.IntOpt("batch_size", default=500)], group="engine")
    conf.register_opts(OsloMessagingSource.options, group="source_nova")
    conf([], default_config_files=[str(file) for file in files])
    for option, value in options.items():
        conf.set_override(option, value, group="source_nova")
    return OsloMessagingSource("nova", conf)


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """Sends request contexts as Nova does."""

    def serialize_context(self, context: RequestContext) -> dict[str, Any]:
        return context.to_dict() if context else {}


def notifier(
    url: str, exchange: str, serializer: oslo_messaging.NoOpSerializer | None = None
) -> oslo_messaging.Notifier:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    transport = oslo_messaging.get_notification_transport(conf, url)
    conf.set_override("control_exchange", exchange)
    transport = oslo_messaging.get_notification_transport(conf, url)
    return oslo_messaging.Notifier(
        transport,
        publisher_id="nova-compute:h",
        driver="messagingv2",
        serializer=serializer,
        topics=["versioned_notifications"],
    )


@pytest.fixture(params=["kombu+memory:////", "fake://"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("request_id", ["req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55", None])
def test_an_event_has_the_actor_and_the_request_of_its_request_context(url: str, request_id: str | None) -> None:
    exchange = f"nova-{secrets.token_hex(4)}"
    source = make_source(transport_url=url, exchange=exchange, pool=exchange)
    seen: list[Event] = []

    def emit(events: Sequence[Event]) -> None:
        seen.extend(events)
        source.ack(events)

    source.start(emit)
    try:
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        context = RequestContext(global_request_id=request_id, user_id="u", project_id="p", request_id="req-1")
        notifier(url, exchange, ContextSerializer()).info(context, "instance.update", {"uuid": "a"})
        wait_until(lambda: seen)
    finally:
        source.stop(time.monotonic() + deadline(60))
    assert seen[0].trace == (None if request_id is None else TraceContext(global_request_id=request_id))
    assert seen[0].actor == Actor("u", "p", "req-1")


@pytest.mark.parametrize("context", [{"request_id": "\ud800", "global_request_id": ["\ud800"], "user_id": 1}, None, 7])
def test_an_unfit_request_context_is_left_out_of_the_event(context: Any) -> None:
    message = {"ctxt": context, "publisher_id": "nova", "event_type": "instance.update", "payload": {}, "metadata": {}}
    event = make_source(transport_url="fake://")._event_of("info", message)
    assert (event.undecodable, event.actor, event.trace) == (None, None, None)


@pytest.mark.slow
def test_an_event_of_a_notifier_in_the_same_process_arrives_and_a_released_one_arrives_again(url: str) -> None:
    exchange = f"nova-{secrets.token_hex(4)}"
    source = make_source(transport_url=url, exchange=exchange, pool=exchange)
    seen: list[Event] = []

    def emit(events: Sequence[Event]) -> None:
        seen.extend(events)
        if len(seen) == 1:
            source.nack(events, 0.0)
        else:
            source.ack(events)

    source.start(emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    sender = notifier(url, exchange)
    sender.info({"user": "u"}, "instance.update", {"n": 1})
    wait_until(lambda: len(seen) == 2)
    sender.error({}, "instance.create.error", {"n": 2})
    wait_until(lambda: len(seen) == 3)
    begin = time.monotonic()
    source.stop(begin + 120)
    assert time.monotonic() - begin < deadline(60)
    assert [event.read() for event in seen] == [{"n": 1}, {"n": 1}, {"n": 2}]
    assert [event.type for event in seen[1:]] == ["instance.update", "instance.create.error"]
    assert seen[0].id == seen[1].id != seen[2].id
    assert {event.origin for event in seen} == {"nova-compute:h"}
    assert all(event.time is not None and event.undecodable is None for event in seen)
    assert source.status().state is SourceState.STOPPED


@pytest.mark.slow
def test_a_broker_that_comes_up_after_the_stop_gets_all_its_events_back(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = f"nova-{secrets.token_hex(4)}"
    source = make_source(transport_url="fake://", exchange=exchange, pool=exchange)
    reached, up = threading.Event(), threading.Event()
    make = oslo_messaging.get_notification_transport

    def late(*arguments: Any) -> Any:
        reached.set()
        assert up.wait(deadline(60))
        return make(*arguments)

    monkeypatch.setattr(oslo_messaging, "get_notification_transport", late)
    seen: list[Event] = []
    source.start(seen.extend)
    assert reached.wait(deadline(60))
    source.stop(time.monotonic() + deadline(60))
    up.set()
    source._thread.join(deadline(60))
    assert not source._thread.is_alive()
    assert (seen, source.status().state) == ([], SourceState.STOPPED)


@pytest.mark.parametrize("bad", [None, "", "no-scheme", "rabbit://guest:hush-hush@host:port/"])
def test_a_url_that_is_missing_or_malformed_is_refused_naming_the_option_and_not_the_password(bad: str | None) -> None:
    with pytest.raises(ConfigError, match=r"\[source_nova\] transport_url") as caught:
        make_source(transport_url=bad)
    assert "hush-hush" not in str(caught.value)


@pytest.mark.parametrize("login", ["u:hush%2Fhush%40", "hush%2fhush:p"])
@pytest.mark.parametrize("scheme", ["rabbit", "amqp", "kombu+rabbit"])
def test_a_slash_in_a_login_to_rabbitmq_is_refused_naming_the_driver_that_can(login: str, scheme: str) -> None:
    with pytest.raises(ConfigError, match=r"\[source_nova\] transport_url: .*driver = rabbitmq") as caught:
        make_source(transport_url=f"{scheme}://{login}@host:5672/")
    assert "hush" not in str(caught.value)
    assert make_source(transport_url=f"kafka://{login}@host:9092/")


def test_a_wrong_value_of_the_librarys_group_is_refused_naming_the_file_and_the_option(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("[oslo_messaging_rabbit]\nssl = perhaps\n")
    with pytest.raises(ConfigError, match=rf"{file}: \[oslo_messaging_rabbit\] ssl: "):
        make_source([file], transport_url="rabbit://")


def test_an_unknown_url_scheme_is_reported_in_the_status() -> None:
    source = make_source(transport_url="pigeon://host/")
    source.start(lambda events: None)
    status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
    assert "pigeon" in status.detail
    source.stop(time.monotonic() + deadline(60))


def test_the_operators_options_of_the_library_win_except_the_prefetch_that_is_meant_for_rpc(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("[oslo_messaging_rabbit]\nrabbit_qos_prefetch_count = 7\namqp_durable_queues = true\n")
    source = make_source([file], transport_url="kombu+memory:////")
    other = make_source(transport_url="kombu+memory:////", batch_size=20)
    for one, prefetch, durable in ((source, 1000, True), (other, 40, False)):
        oslo_messaging.get_notification_transport(one._private, one._url)  # the library registers its options too
        rabbit = one._private.oslo_messaging_rabbit
        assert (rabbit.rabbit_qos_prefetch_count, rabbit.amqp_durable_queues) == (prefetch, durable)
    assert "oslo_messaging_rabbit" not in source.conf


@contextlib.contextmanager
def running(url: str, emit: Callable[[OsloMessagingSource, Sequence[Event]], None], **options: Any) -> Iterator[str]:
    """A source that is connected; the name of its exchange."""
    exchange = f"nova-{secrets.token_hex(4)}"
    source = make_source(transport_url=url, exchange=exchange, pool=exchange, **options)
    source.start(lambda events: emit(source, events))
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    yield exchange
    source.stop(time.monotonic() + deadline(60))
    assert not source._thread.is_alive()


@pytest.mark.slow
def test_every_priority_that_nova_knows_arrives(url: str) -> None:
    seen: list[Event] = []

    def emit(source: OsloMessagingSource, events: Sequence[Event]) -> None:
        seen.extend(events)
        source.ack(events)

    with running(url, emit) as exchange:
        sender = notifier(url, exchange)
        for priority in PRIORITIES:
            getattr(sender, priority)({}, f"instance.{priority}", {})
        wait_until(lambda: len(seen) == len(PRIORITIES))
    assert sorted(event.type for event in seen) == sorted(f"instance.{priority}" for priority in PRIORITIES)


@pytest.mark.slow
def test_an_event_is_read_as_strictly_as_from_any_other_transport() -> None:
    seen: list[Event] = []

    def emit(source: OsloMessagingSource, events: Sequence[Event]) -> None:
        seen.extend(events)
        source.ack(events)

    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    bad = [{"a": float("nan")}, {"a": "x" * 3000}, "text", deep]
    with running("fake://", emit, max_event_size=2000) as exchange:
        sender = notifier("fake://", exchange)
        for payload in bad:
            sender.info({}, "instance.update", payload)
        sender.info({}, "instance.update", {"good": 1})
        wait_until(lambda: len(seen) == 5)
    reasons = [str(event.undecodable) for event in seen]
    assert reasons[0] == "payload.a is NaN, which is no finite number"
    assert reasons[1].endswith("bytes are more than the 2000 allowed")
    assert reasons[2] == 'payload is "text", not an object'
    assert "deep" in reasons[3] or "bytes are more" in reasons[3]
    assert (seen[4].undecodable, seen[4].read()) == (None, {"good": 1})
    assert len({event.id for event in seen}) == 5


@pytest.mark.slow
def test_an_emit_that_fails_is_repeated_with_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.oslo_messaging._EMIT_RETRY_SECONDS", 0.01)
    seen: list[tuple[str, int]] = []

    def emit(source: OsloMessagingSource, events: Sequence[Event]) -> None:
        seen.extend((event.type, event.deliveries) for event in events)
        if len(seen) < 3:
            raise RuntimeError("not now")
        source.ack(events)

    with running("fake://", emit) as exchange:
        notifier("fake://", exchange).info({}, "instance.update", {})
        wait_until(lambda: len(seen) == 3)
    assert seen == [("instance.update", deliveries) for deliveries in (1, 2, 3)]


@pytest.mark.slow
def test_it_runs_with_eventlet_blocked_from_import() -> None:
    code = textwrap.dedent("""
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("eventlet", "greenlet"):
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Blocker())
        from oslo_service import backend
        backend.init_backend(backend.BackendType.THREADING)
        from tests.unit.extensions.openstack.source import test_oslo_messaging as tests
        tests.test_an_event_of_a_notifier_in_the_same_process_arrives_and_a_released_one_arrives_again("kombu+memory:////")
        assert "eventlet" not in sys.modules
        print("it runs")
    """)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=deadline(300),
        check=False,
    )
    assert done.stdout == "it runs\n", done.stderr


def test_settling_what_is_not_in_hand_any_more_does_nothing() -> None:
    source = make_source(transport_url="kombu+memory:////")
    event = Event(id="a", type="t", source="nova", position=5, data=json.dumps({}))
    source.ack([event])
    source.nack([event], 0.0)
    assert source.status().state is SourceState.STARTING
