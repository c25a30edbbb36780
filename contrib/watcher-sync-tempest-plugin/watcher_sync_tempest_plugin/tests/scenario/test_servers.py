# SPDX-License-Identifier: Apache-2.0
"""A server of Nova: the model follows it from its boot to its end, and a callback tells of it."""

from __future__ import annotations

from typing import Any

from tempest import config
from tempest.common import waiters
from tempest.lib import decorators, exceptions
from tempest.lib.common.utils import data_utils, test_utils

from watcher_sync_tempest_plugin.tests import base
from watcher_sync_tempest_plugin.tests.scenario.receiver import Receiver

CONF = config.CONF
WITHOUT_NETWORK = "2.37"
"""The first microversion that boots a server without a network."""


class ServersTest(base.BaseWatcherSyncTest):
    """Servers without a network, so that the cloud needs no Neutron."""

    credentials = ("project_reader", "project_member", "project_admin", "project_alt_member", "system_reader")

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.nova:
            raise cls.skipException("[service_available] nova is false")

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.setup_api_microversion_fixture(compute_microversion=WITHOUT_NETWORK)
        cls.servers = cls.os_project_member.servers_client

    def boot(self) -> Any:
        """A server that Nova shows as active, as an administrator sees it."""
        server = self.servers.create_server(
            name=data_utils.rand_name("server"),
            imageRef=CONF.compute.image_ref,
            flavorRef=CONF.compute.flavor_ref,
            networks="none",
        )["server"]
        self.addCleanup(waiters.wait_for_server_termination, self.servers, server["id"])
        self.addCleanup(test_utils.call_and_ignore_notfound_exc, self.servers.delete_server, server["id"])
        waiters.wait_for_server_status(self.servers, server["id"], "ACTIVE")
        return self.os_project_admin.servers_client.show_server(server["id"])["server"]

    def wait_for_state(self, server_id: str, state: str) -> Any:
        """The server as a reader of its project sees it, once the model has the state."""

        def reached() -> Any:
            found = self.shown("project_reader", "instances", server_id)
            return found if found and found["state"] == state else None

        return self.wait_for(reached, f"server {server_id} {state} in the model")

    @decorators.idempotent_id("2ba3246f-1bfb-45ec-9802-9a20390abe1d")
    @decorators.attr(type="smoke")
    def test_the_model_follows_a_server_from_its_boot_to_its_end(self) -> None:
        server = self.boot()
        host, entity = server["OS-EXT-SRV-ATTR:host"], self.wait_for_state(server["id"], "active")
        self.assertEqual(
            (server["name"], server["tenant_id"], server["user_id"], server["image"]["id"]),
            (entity["name"], entity["project_id"], entity["user_id"], entity["image_id"]),
        )
        self.assertNotIn("host", entity)
        self.assertIsNone(self.shown("project_alt_member", "instances", server["id"]))
        everything = self.entities("system_reader")
        self.assertEqual(host, everything.find_entity("instances", server["name"])["host"])
        self.assertEqual("up", everything.show_entity("compute_nodes", host)["state"])
        on_host = everything.list_entities("instances", host=host, name=server["name"])["instances"]
        self.assertEqual([server["id"]], [one["id"] for one in on_host])
        for persona, hosts in (("system_reader", [host]), ("project_reader", [])):
            graph = self.entities(persona).show_graph("instance", server["id"], direction="needs")
            self.assertEqual(hosts, [n["id"] for n in graph["nodes"] if n["kind"] == "compute_node"], persona)
        self.servers.delete_server(server["id"])
        self.wait_for(lambda: not self.shown("system_reader", "instances", server["id"]), "its end in the model")
        self.assertIsNone(self.shown("project_reader", "instances", server["id"]))

    @decorators.idempotent_id("d55a374d-3ee5-48e2-839e-d2db3290f808")
    def test_a_subscriber_gets_the_changes_of_its_server_until_it_unsubscribes(self) -> None:
        if not CONF.watcher_sync.callback_host:
            raise self.skipException("[watcher_sync] callback_host is not set")
        receiver = Receiver()
        self.addCleanup(receiver.close)
        server_id, name = self.boot()["id"], data_utils.rand_name("subscription")
        self.wait_for_state(server_id, "active")
        member = self.os_project_member.watcher_sync.SubscriptionsClient()
        reader = self.os_project_reader.watcher_sync.SubscriptionsClient()
        url = receiver.url(CONF.watcher_sync.callback_host)
        member.create_subscription(server_id, name, f"{url}?key=hidden", metadata={"run": name})
        self.addCleanup(test_utils.call_and_ignore_notfound_exc, member.delete_subscription, server_id, name)
        self.assertRaises(exceptions.Conflict, member.create_subscription, server_id, name, url)
        self.assertEqual([url], [one["callback-url"] for one in reader.list_subscriptions(server_id)])
        self.servers.stop_server(server_id)
        stopped = self.wait_for(lambda: receiver.delivery_with("stopped"), "a callback of the stopped server")
        self.assertEqual(
            (server_id, name, {"run": name}),
            (stopped["instance-id"], stopped["subscription-name"], stopped["metadata"]),
        )
        self.wait_for(lambda: reader.show_subscription(server_id, name)["last-notify-status"] == 204, "its log")
        self.assertRaises(exceptions.Forbidden, reader.delete_subscription, server_id, name)
        member.delete_subscription(server_id, name)
        self.assertRaises(exceptions.NotFound, member.show_subscription, server_id, name)
