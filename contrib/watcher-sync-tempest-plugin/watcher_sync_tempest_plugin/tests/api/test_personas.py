# SPDX-License-Identifier: Apache-2.0
"""What each role sees and writes: the table of the chapter on roles in the documentation."""

from __future__ import annotations

from typing import Any

from tempest.lib import decorators, exceptions

from watcher_sync_tempest_plugin.tests import base

PROJECT = ("project_reader", "project_member", "project_manager")
EVERYTHING = ("project_admin", "system_reader")
VNFS = "vnf_instances"


class PersonasTest(base.BaseWatcherSyncTest):
    """A VNF instance of one project, and the personas of this project, of another one, and of the system."""

    credentials = (*PROJECT, *EVERYTHING, "project_alt_member", ["service", "service"])

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.vnf = cls.register_vnf("vdu1")

    def site(self, persona: str) -> Any:
        """The client of a persona for sources and quarantine."""
        return getattr(self, f"os_{persona}").watcher_sync.SiteClient()

    def assert_forbidden(self, what: Any, *arguments: Any, **named: Any) -> None:
        self.assertRaises(exceptions.Forbidden, what, *arguments, **named)

    @decorators.idempotent_id("d927490f-c98d-4867-a135-0f95c0e38712")
    @decorators.attr(type="smoke")
    def test_versions_need_no_token_and_entities_do(self) -> None:
        client = self.site("project_reader")
        status, document = client.get_without_token("/versions")
        self.assertEqual((200, ["v1"]), (status, [version["id"] for version in document["versions"]]))
        self.assertTrue(document["versions"][0]["kinds"]["instance"].endswith("/v1/instances"))
        self.assertEqual(401, client.get_without_token("/v1/instances")[0])

    @decorators.idempotent_id("ca50dd64-b323-4838-b306-ba3b0d2263eb")
    @decorators.attr(type="smoke")
    def test_the_project_and_who_reads_everything_see_the_instance(self) -> None:
        for persona in PROJECT + EVERYTHING:
            client = self.entities(persona)
            self.assertEqual(self.vnf["name"], client.show_entity(VNFS, self.vnf["id"])["name"], persona)
            self.assertEqual(self.vnf["id"], client.find_entity(VNFS, self.vnf["name"])["id"], persona)
            listed = client.list_entities(VNFS, name=self.vnf["name"])[VNFS]
            self.assertEqual([self.vnf["id"]], [one["id"] for one in listed], persona)
            self.assertEqual(self.os_project_reader.credentials.project_id, listed[0]["project_id"], persona)
            nodes = client.show_graph("vnf_instance", self.vnf["id"])["nodes"]
            self.assertIn(self.vnf["id"], [node["id"] for node in nodes], persona)

    @decorators.idempotent_id("5f6dc385-b2ab-4253-8000-ff6ee2b292a6")
    @decorators.attr(type="negative")
    def test_for_another_project_the_instance_does_not_exist(self) -> None:
        client, vnf_id = self.entities("project_alt_member"), self.vnf["id"]
        self.assertEqual([], client.list_entities(VNFS, name=self.vnf["name"])[VNFS])
        for refused in (
            lambda: client.show_entity(VNFS, vnf_id),
            lambda: client.find_entity(VNFS, self.vnf["name"]),
            lambda: client.show_graph("vnf_instance", vnf_id),
            lambda: client.delete_entity(VNFS, vnf_id),
            lambda: self.operations("project_alt_member").list_operations(vnf_id),
            lambda: self.operations("project_alt_member").begin_operation(vnf_id, "SCALE", "lcm-1"),
            lambda: self.subscriptions("project_alt_member").list_subscriptions(vnf_id),
        ):
            self.assertRaises(exceptions.NotFound, refused)

    @decorators.idempotent_id("ff88a082-8315-4656-b287-8009f2504e4b")
    @decorators.attr(type="negative")
    def test_readers_do_not_write(self) -> None:
        for persona in ("project_reader", "system_reader"):
            client, vnf_id = self.entities(persona), self.vnf["id"]
            self.assert_forbidden(client.create_entity, VNFS, **self.registration())
            self.assert_forbidden(client.delete_entity, VNFS, vnf_id)
            self.assert_forbidden(self.operations(persona).begin_operation, vnf_id, "SCALE", "lcm-1")
            subscriptions = self.subscriptions(persona)
            self.assert_forbidden(subscriptions.create_subscription, vnf_id, "tempest", "https://lcm.example.com/")

    @decorators.idempotent_id("de7992c8-f1dc-4045-b546-0c09121827d2")
    @decorators.attr(type="negative")
    def test_only_administrators_register_in_a_namespace_of_no_project(self) -> None:
        for persona in ("project_member", "project_manager"):
            self.assert_forbidden(self.entities(persona).create_entity, VNFS, **self.registration())

    @decorators.idempotent_id("723f4a9d-24b8-4d94-966f-4b48a4f197cc")
    def test_hosts_and_sources_are_for_administrators_and_readers_of_the_system(self) -> None:
        for persona in EVERYTHING:
            self.assertIn("compute_nodes", self.entities(persona).list_entities("compute_nodes"), persona)
            self.assertIn("sources", self.site(persona).list_sources(), persona)
        for persona in (*PROJECT, "project_alt_member", "service"):
            self.assert_forbidden(self.entities(persona).list_entities, "compute_nodes")
            self.assert_forbidden(self.site(persona).list_sources)
        for persona in PROJECT:
            self.assert_forbidden(self.entities(persona).list_entities, "instances", host="compute-1")

    @decorators.idempotent_id("810af9e4-e7b2-44bc-a475-f88075fb48c9")
    def test_the_quarantine_is_for_administrators(self) -> None:
        self.assertIn("quarantine", self.site("project_admin").list_quarantine())
        for persona in (*PROJECT, "project_alt_member", "system_reader", "service"):
            self.assert_forbidden(self.site(persona).list_quarantine)

    @decorators.idempotent_id("a7292d5a-91cb-4ac9-8ccb-f37f5996e829")
    @decorators.attr(type="negative")
    def test_the_role_service_reads_nothing(self) -> None:
        for plural in ("instances", VNFS, "pods"):
            self.assert_forbidden(self.entities("service").list_entities, plural)

    def subscriptions(self, persona: str) -> Any:
        """The client of a persona for subscriptions."""
        return getattr(self, f"os_{persona}").watcher_sync.SubscriptionsClient()

    def registration(self) -> dict[str, Any]:
        """The fields with which an administrator registered the instance."""
        names = ("name", "cluster", "namespace", "vnfd_id", "flavour_id", "vdus", "aspects")
        return {name: self.vnf[name] for name in names}
