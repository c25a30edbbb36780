# SPDX-License-Identifier: Apache-2.0
"""The operation lease of a VNF instance: one holder, a secret, and an end by force."""

from __future__ import annotations

from typing import Any

from tempest.lib import decorators, exceptions

from watcher_sync_tempest_plugin.tests import base


class LeasesTest(base.BaseWatcherSyncTest):
    """Several life-cycle managers ask for one VNF instance. No cluster is needed."""

    credentials = ("project_reader", "project_member", "project_manager", "project_admin", "project_alt_member")

    def setUp(self) -> None:
        super().setUp()
        self.vnf_id = self.register_vnf("vdu1")["id"]
        self.member, self.manager = self.operations("project_member"), self.operations("project_manager")

    def states(self) -> list[Any]:
        """The states of all operations as a reader sees them, which are without secrets."""
        listed = self.operations("project_reader").list_operations(self.vnf_id)["operations"]
        self.assertFalse([one for one in listed if "secret" in one])
        return [one["state"] for one in listed]

    @decorators.idempotent_id("d2e0b8f9-c0c4-4745-bead-73708e975524")
    @decorators.attr(type="smoke")
    def test_a_second_operation_is_refused_until_the_first_one_ends(self) -> None:
        first = self.begin("project_member", self.vnf_id, "lcm-1")
        refused = self.assertRaises(exceptions.Conflict, self.manager.begin_operation, self.vnf_id, "HEAL", "lcm-2")
        problem = refused.resp_body
        self.assertEqual(("lcm-1", "SCALE", 409), (problem["holder"], problem["operation"], problem["status"]))
        self.assertGreater(int(refused.resp["retry-after"]), 0)
        self.assertGreater(self.member.send_heartbeat(self.vnf_id, first)["expires_at"], first["expires_at"])
        self.assertEqual(["RUNNING"], self.states())
        self.member.end_operation(self.vnf_id, first)
        second = self.begin("project_manager", self.vnf_id, "lcm-2")
        self.assertGreater(second["token"], first["token"])
        self.assertEqual(["COMPLETED", "RUNNING"], self.states())
        self.manager.end_operation(self.vnf_id, second, "ROLLED_BACK")
        self.assertEqual(["COMPLETED", "ROLLED_BACK"], self.states())

    @decorators.idempotent_id("ee9a7b0e-3da3-43f1-a041-8348b87f61db")
    @decorators.attr(type="negative")
    def test_the_lease_is_its_owners(self) -> None:
        held = self.begin("project_member", self.vnf_id, "lcm-1")
        for client, changed, error in (
            (self.member, {"secret": "wrong"}, exceptions.Forbidden),
            (self.manager, {}, exceptions.Forbidden),
            (self.operations("project_alt_member"), {}, exceptions.NotFound),
            (self.member, {"token": held["token"] + 1}, exceptions.PreconditionFailed),
        ):
            self.assertRaises(error, client.send_heartbeat, self.vnf_id, held, **changed)
        delete = self.entities("project_member").delete_entity
        self.assertRaises(exceptions.Conflict, delete, "vnf_instances", self.vnf_id)
        self.assertEqual(["RUNNING"], self.states())

    @decorators.idempotent_id("0b4c60c8-f3e6-4746-a206-caf5c043f90d")
    def test_a_manager_ends_the_operation_of_a_member_by_force(self) -> None:
        held = self.begin("project_member", self.vnf_id, "lcm-1")
        force = self.operations("project_reader").force_end_operation
        self.assertRaises(exceptions.Forbidden, force, self.vnf_id, held["id"])
        self.assertRaises(exceptions.Forbidden, self.member.force_end_operation, self.vnf_id, held["id"])
        self.manager.force_end_operation(self.vnf_id, held["id"])
        self.assertEqual(["FAILED"], self.states())
        self.assertRaises(exceptions.Conflict, self.member.send_heartbeat, self.vnf_id, held)
