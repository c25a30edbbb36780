# SPDX-License-Identifier: Apache-2.0
"""A real RabbitMQ breaks in each way that it can: the source says so in one line, and returns by itself."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faulty_proxy import DOWN, UP, FaultyProxy
from tests.functional.security import documented
from tests.functional.sources.rabbitmq_deletions import delete_again_and_again
from tests.functional.sources.rabbitmq_source import STREAMS, Observed, Sender, arrives, flows, sending
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_cluster, private_rabbitmq_node, url_of_cluster
from tests.waiting import deadline, wait_until
from watcher_sync.sources.base import SourceState

CONNECTED, DISCONNECTED = SourceState.CONNECTED, SourceState.DISCONNECTED


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    """One node for all tests that leave it as they found it."""
    with private_rabbitmq_node() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(node: RabbitMQNode) -> Iterator[list[RabbitMQNode]]:
    """The node as the second one, and one that joined it; a test starts the first again when it has killed it.

    The node stays in the cluster. The tests of a single node precede those of a cluster, as do their lines here.
    """
    with private_rabbitmq_cluster(2, first=node) as (second, first):
        yield [first, second]


@pytest.fixture
def sender(node: RabbitMQNode) -> Iterator[Sender]:
    with sending(node) as made:
        yield made


def check_disconnected(observed: Observed, pattern: str, *, reasons: int = 2) -> None:
    """The source says why it is disconnected, in one line in its status and one in the log, and does not repeat it.

    :param reasons: how many there may be, each in a line: the loss of the consumer or the connection may precede it.
    """
    wait_until(lambda: observed.status.state is DISCONNECTED and re.search(pattern, observed.status.detail, re.I))
    wait_until(lambda: observed.warnings and re.search(pattern, observed.warnings[-1], re.I))
    assert "\n" not in observed.status.detail
    time.sleep(1.0)  # wait: attempts that fail for the same reason follow in it
    assert observed.status.state is DISCONNECTED
    assert observed.status.detail in observed.warnings[-1]
    assert len(set(observed.warnings)) == len(observed.warnings) <= reasons, observed.warnings


@pytest.mark.parametrize("alarm", ["memory_alarm", pytest.param("disk_alarm", marks=pytest.mark.rare)])
def test_an_alarm_blocks_publishers_and_not_the_source(node: RabbitMQNode, sender: Sender, alarm: str) -> None:
    with Observed(node.url, sender.name, batch_size=5) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.engine.acks = False
        waiting = sender.publish(60)
        wait_until(lambda: waiting[0] in observed.ids)
        observed.forget()
        with getattr(node, alarm)():
            observed.engine.acks = True
            for batch in list(observed.engine.batches):
                observed.source.ack(batch)
            arrives(observed, waiting)
            wait_until(lambda: sender.waiting() == 0)
            # A connection that is made while the alarm lasts works, too.
            node.close_connections()
            wait_until(lambda: observed.warnings)
            observed.wait_for(CONNECTED)
            blocked = threading.Thread(target=sender.publish, args=(5,), daemon=True)
            blocked.start()
            blocked.join(0.5)
            assert blocked.is_alive()
            assert observed.status.state is CONNECTED
        blocked.join(deadline(60))
        assert not blocked.is_alive()
        arrives(observed, [f"m-{number}" for number in range(65, 70)])
        assert len(observed.warnings) == 1, observed.warnings
        flows(observed, sender.publish)


@pytest.mark.rare  # test_rabbitmq_queues
def test_a_deleted_queue_is_made_again(node: RabbitMQNode, sender: Sender) -> None:
    with Observed(node.url, sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        sender.delete_queue()
        wait_until(lambda: observed.warnings)
        wait_until(lambda: sender.consumers() == 1)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        assert len(observed.warnings) == 1, observed.warnings
        assert re.search("queue|cancel", observed.warnings[0])


@pytest.mark.rare  # test_rabbitmq_queues
def test_a_queue_that_is_deleted_under_five_consumers_gets_all_of_them_back(
    node: RabbitMQNode, figure: Callable[[str], None]
) -> None:
    seconds = delete_again_and_again(node, 3)
    figure(f"recovered within {max(seconds):.2f} s")
    assert max(seconds) < 60  # tests/faults allows 5 s


@pytest.mark.rare  # test_rabbitmq_queues
def test_a_purged_queue_costs_what_was_in_it_and_nothing_more(node: RabbitMQNode, sender: Sender) -> None:
    with Observed(node.url, sender.name, batch_size=5) as observed:
        observed.wait_for(CONNECTED)
        observed.engine.acks = False
        before = sender.publish(60)
        wait_until(lambda: before[0] in observed.ids)
        observed.forget()
        sender.purge()
        observed.engine.acks = True
        for batch in list(observed.engine.batches):
            observed.source.ack(batch)
        flows(observed, sender.publish)
        wait_until(lambda: sender.waiting() == 0)
        assert observed.status.state is CONNECTED
        assert observed.warnings == []


def test_a_deleted_virtual_host_is_waited_for(node: RabbitMQNode) -> None:
    vhost = f"vhost-{secrets.token_hex(4)}"
    node.add_vhost(vhost)
    with sending(node, vhost=vhost) as sender, Observed(node.url_of(vhost=vhost), sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        node.delete_vhost(vhost)
        # A slow broker first cancels the consumer, then refuses access, and then closes the connection.
        check_disconnected(observed, "(vhost|virtual host) .*not found", reasons=4)
        node.add_vhost(vhost)
        sender.close()
        assert sender.channel.is_open  # it has declared the exchange
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    node.delete_vhost(vhost)


@pytest.mark.rare  # test_rabbitmq_queues
def test_a_deleted_exchange_is_noticed_and_waited_for(
    node: RabbitMQNode, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._INTERVAL_SECONDS", 0.5)
    with Observed(node.url, sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        sender.delete_exchange()
        # The broker informs no client. The source finds out when it checks.
        check_disconnected(observed, "waits for the exchange")
        sender.declare()  # as the publisher's next notification does
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)


@pytest.mark.rare  # test_rabbitmq_queues
def test_an_exchange_that_lost_its_bindings_is_bound_again(
    node: RabbitMQNode, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._INTERVAL_SECONDS", 0.5)
    with Observed(node.url, sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        sender.delete_exchange()
        sender.declare()  # as the publisher's next notification does
        wait_until(lambda: set(sender.publish()) & set(observed.ids))
        flows(observed, sender.publish)
        assert observed.status.state is CONNECTED


@pytest.mark.parametrize(("driver", "password"), [("rabbitmq", "/@:?#%,&= "), ("oslo_messaging", "@:?#%,&= ")])
def test_a_password_with_delimiters_of_urls_logs_in(
    node: RabbitMQNode, sender: Sender, driver: str, password: str
) -> None:
    user = f"user-{secrets.token_hex(4)}"
    node.add_user(user, password)
    with Observed(node.url_of(user=user, password=password), sender.name, driver=driver) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    node.delete_user(user)


def test_a_full_virtual_host_is_named_in_the_words_of_the_broker_until_it_has_room(node: RabbitMQNode) -> None:
    vhost = f"vhost-{secrets.token_hex(4)}"
    node.add_vhost(vhost)
    node.ctl("set_vhost_limits", "-p", vhost, '{"max-queues": 0}')
    with sending(node, vhost=vhost) as sender, Observed(node.url_of(vhost=vhost), sender.name) as observed:
        check_disconnected(observed, r"PRECONDITION_FAILED.*queue limit in vhost '.*' \(0\) is reached")
        node.ctl("clear_vhost_limits", "-p", vhost)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    node.delete_vhost(vhost)


@pytest.mark.parametrize("limited", ["vhost", "user"])
def test_a_limit_of_connections_is_named_in_the_words_of_the_broker(node: RabbitMQNode, limited: str) -> None:
    name = f"limited-{secrets.token_hex(4)}"
    node.add_vhost(name)
    node.add_user(name, "its-secret", vhost=name)
    node.ctl(f"set_{limited}_limits", *(["-p"] if limited == "vhost" else []), name, '{"max-connections": 0}')
    with Observed(node.url_of(user=name, password="its-secret", vhost=name), name) as observed:
        check_disconnected(observed, rf"virtual host '{name}' is refused: .*connection limit \(0\) is reached")
    node.delete_user(name)
    node.delete_vhost(name)


def test_messages_that_expire_while_the_source_is_paused_count_as_lost(
    node: RabbitMQNode, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._INTERVAL_SECONDS", 0.1)
    with Observed(node.url, sender.name, hand_back_after=1.0) as observed:
        observed.wait_for(CONNECTED)
        observed.engine.acks = False
        # It is in force for what is published from now on.
        node.ctl("set_policy", sender.name, f"^{sender.name}$", '{"message-ttl": 5000}', "--apply-to", "queues")
        arrives(observed, sender.publish(5))
        wait_until(lambda: observed.status.detail.startswith("paused") and observed.status.lag == 5)
        wait_until(lambda: observed.status.lost == 5)
        assert observed.status.gaps >= 1
        node.ctl("clear_policy", sender.name)
        observed.engine.acks = True
        observed.source.ack(observed.engine.events)
        flows(observed, sender.publish)


def test_messages_that_expire_in_the_queue_are_lost_and_the_broker_does_not_say_so(
    node: RabbitMQNode, sender: Sender
) -> None:
    with Observed(node.url, sender.name) as observed:
        observed.wait_for(CONNECTED)
    node.ctl("set_policy", sender.name, f"^{sender.name}$", '{"message-ttl": 10}', "--apply-to", "queues")
    lost = sender.publish(5)
    wait_until(lambda: sender.waiting() == 0)
    node.ctl("clear_policy", sender.name)
    with Observed(node.url, sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        assert not set(lost) & set(observed.ids)
        assert (observed.status.gaps, observed.status.detail) == (0, "")


@pytest.mark.parametrize(
    ("driver", "durable", "gaps"),
    [("rabbitmq", False, 1), ("rabbitmq", True, 0), (STREAMS, True, 1)],
    ids=["transient", "durable", "stream"],
)
def test_a_binding_that_a_restart_of_the_broker_may_have_lost_counts_as_a_gap(
    node: RabbitMQNode, driver: str, durable: bool, gaps: int
) -> None:
    user = f"user-{secrets.token_hex(4)}"
    node.add_user(user)
    url = f"{node.url_of(user=user)}?amqp_durable_queues={durable}"
    with sending(node, durable=durable) as sender, Observed(url, sender.name, driver=driver) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        node.set_password(user, "another")  # so the publisher is the first to return
        with node.out_of_service():
            observed.wait_for(DISCONNECTED)
        first = sender.publish(5)
        node.set_password(user, user)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        assert observed.status.gaps == gaps
        assert gaps or set(first) <= set(observed.ids)
    node.delete_user(user)


def test_a_refused_permission_is_named_and_asked_for_again(node: RabbitMQNode, sender: Sender) -> None:
    user = f"user-{secrets.token_hex(4)}"
    node.add_user(user)
    node.permit(user, read="nothing")
    with Observed(node.url_of(user=user), sender.name) as observed:
        check_disconnected(observed, "ACCESS_REFUSED|refused")
        assert sender.name in observed.status.detail
        node.permit(user)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    node.delete_user(user)


def test_a_queue_that_was_deleted_counts_as_a_gap_though_it_cannot_be_bound_at_first(
    node: RabbitMQNode, sender: Sender
) -> None:
    user = f"user-{secrets.token_hex(4)}"
    node.add_user(user)
    node.permit(user)
    with Observed(node.url_of(user=user), sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        node.permit(user, write="nothing")
        sender.delete_queue()
        wait_until(lambda: "refused" in observed.status.detail and sender.waiting() == 0)
        node.permit(user)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        assert observed.status.gaps == 1
    node.delete_user(user)


def guided(
    node: RabbitMQNode, name: str, *, without: tuple[str, str] = ("", ""), **options: str
) -> contextlib.AbstractContextManager[Observed]:
    """A source of the guide's account, which has the guide's permissions in a virtual host of this name.

    :param without: a permission, and the name that it does not have.
    """
    (command,) = documented.commands("admin/configure.rst", "# rabbitmqctl set_permissions")
    user, *patterns = command[-4:]
    permissions = dict(zip(("configure", "write", "read"), patterns, strict=True))
    what, missing = without
    permissions |= {what: permissions[what].replace(missing, "none")} if what else {}
    node.permit(user, vhost=name, **permissions)
    return Observed(node.url_of(user=user, vhost=name), "watcher-sync", exchange="nova", **options)


@pytest.mark.rare
@pytest.mark.parametrize("driver", ["rabbitmq", "rabbitmq_stream", "oslo_messaging"])
def test_the_permissions_of_the_guide_are_enough_and_each_is_needed(node: RabbitMQNode, driver: str) -> None:
    name = f"vhost-{secrets.token_hex(4)}"
    node.add_vhost(name)
    node.add_user("watcher_sync", vhost=name)
    sender = Sender(node, "nova", vhost=name)
    sender.publish()
    with guided(node, name, driver=driver) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    cases = [("configure", "watcher-sync"), ("write", "watcher-sync"), ("read", "nova")]
    for without in [*cases, ("read", "watcher-sync")] if driver == "rabbitmq" else []:
        with guided(node, name, without=without, driver=driver) as observed:
            check_disconnected(observed, f"access to (exchange|queue) '{without[1]}' .* refused")
    sender.close()
    node.delete_user("watcher_sync")
    node.delete_vhost(name)


def test_a_login_that_is_refused_is_tried_again(node: RabbitMQNode, sender: Sender) -> None:
    user = f"user-{secrets.token_hex(4)}"
    node.add_user(user, "the-first-secret")
    with Observed(node.url_of(user=user, password="the-first-secret"), sender.name) as observed:
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        node.set_password(user, "another")
        node.close_connections()
        check_disconnected(observed, "authentication failed: .*Login was refused")
        assert not any("secret" in text for text in (observed.status.detail, *observed.warnings))
        node.set_password(user, "the-first-secret")
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
    node.delete_user(user)


@pytest.mark.parametrize(
    "directions", [(UP, DOWN), *(pytest.param((one,), marks=pytest.mark.rare) for one in (DOWN, UP))], ids="-".join
)
def test_a_connection_that_is_stalled_is_given_up(
    node: RabbitMQNode, sender: Sender, directions: tuple[str, ...]
) -> None:
    with (
        FaultyProxy(node.port) as proxy,
        Observed(
            f"rabbit://guest:guest@127.0.0.1:{proxy.port}/?heartbeat_timeout_threshold=2", sender.name
        ) as observed,
    ):
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        if len(directions) == 2:
            proxy.silence()
        else:
            proxy.stall(*directions)
        waiting = sender.publish(5)
        # The source misses heartbeats or answers, or the broker misses heartbeats and closes its end.
        wait_until(lambda: observed.warnings)
        observed.wait_for(CONNECTED)
        arrives(observed, waiting)
        flows(observed, sender.publish)


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_a_connection_that_is_half_closed_is_made_again(node: RabbitMQNode, sender: Sender, direction: str) -> None:
    with (
        FaultyProxy(node.port) as proxy,
        Observed(
            f"rabbit://guest:guest@127.0.0.1:{proxy.port}/?heartbeat_timeout_threshold=2", sender.name
        ) as observed,
    ):
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)
        observed.forget()
        proxy.half_close(direction)
        wait_until(lambda: observed.warnings)
        observed.wait_for(CONNECTED)
        flows(observed, sender.publish)


@contextlib.contextmanager
def killed(node: RabbitMQNode) -> Iterator[None]:
    """The node is dead for as long as this lasts."""
    node.kill()
    try:
        yield
    finally:
        node.start()


def test_the_next_host_takes_over_when_a_node_of_the_cluster_is_gone(cluster: list[RabbitMQNode]) -> None:
    first, second = cluster
    with contextlib.ExitStack() as stack:
        sender = stack.enter_context(sending(second))
        # The queue is on the node that stays.
        sender.channel.queue_declare(sender.name, durable=True, auto_delete=False)
        proxies = [stack.enter_context(FaultyProxy(node.port)) for node in cluster]
        hosts = ",".join(f"guest:guest@127.0.0.1:{proxy.port}" for proxy in proxies)
        observed = stack.enter_context(Observed(f"rabbit://{hosts}/", sender.name))
        observed.wait_for(CONNECTED)
        # It chooses a host at random; lost connections bring it to the first one.
        while not proxies[0].connections:
            observed.forget()
            proxies[1].reset()
            wait_until(lambda: observed.warnings)
            observed.wait_for(CONNECTED)
        observed.engine.acks = False
        held = sender.publish(5)
        arrives(observed, held)
        observed.forget()
        with killed(first):
            wait_until(lambda: observed.warnings)
            observed.engine.acks = True
            observed.wait_for(CONNECTED)
            wait_until(lambda: all(observed.ids.count(name) >= 2 for name in held))
            flows(observed, sender.publish)
            assert len(observed.warnings) == 1, observed.warnings
        flows(observed, sender.publish)


def test_if_a_node_is_gone_a_durable_queue_waits_for_it_and_a_transient_one_is_made_elsewhere(
    cluster: list[RabbitMQNode],
) -> None:
    first, second = cluster
    with contextlib.ExitStack() as stack:
        durable = stack.enter_context(sending(first, durable=True))
        durable.channel.queue_declare(durable.name, durable=True, auto_delete=False)
        transient = stack.enter_context(sending(second))
        maker = Sender(first, transient.name)
        maker.channel.queue_declare(transient.name, durable=False, auto_delete=False)
        url = url_of_cluster([second])
        waits = stack.enter_context(Observed(f"{url}?amqp_durable_queues=true", durable.name, source="durable"))
        moves = stack.enter_context(Observed(url, transient.name, source="transient"))
        for observed, sender in ((waits, durable), (moves, transient)):
            observed.wait_for(CONNECTED)
            flows(observed, sender.publish)
            observed.forget()
        with killed(first):
            wait_until(lambda: moves.warnings)
            wait_until(lambda: transient.consumers() == 1)
            moves.wait_for(CONNECTED)
            flows(moves, transient.publish)
            assert len(moves.warnings) == 1, moves.warnings
            check_disconnected(waits, "NOT_FOUND.*down")
        flows(moves, transient.publish)
        waits.wait_for(CONNECTED)
        durable.close()
        flows(waits, durable.publish)
        maker.close()
