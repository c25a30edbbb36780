# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the check of the service, VNF instances, and waiting for the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tempest import config, test
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils, test_utils

CONF = config.CONF


class BaseWatcherSyncTest(test.BaseTestCase):
    """A test whose credentials need no network. The personas of a project are in the same project."""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.watcher_sync:
            raise cls.skipException("[service_available] watcher_sync is false")

    @classmethod
    def setup_credentials(cls) -> None:
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def entities(cls, persona: str) -> Any:
        """The client of a persona, such as ``project_reader``."""
        return getattr(cls, f"os_{persona}").watcher_sync.EntitiesClient()

    @classmethod
    def operations(cls, persona: str) -> Any:
        """The same for operations."""
        return getattr(cls, f"os_{persona}").watcher_sync.OperationsClient()

    @classmethod
    def register_vnf(cls, workload: str, **more: Any) -> Any:
        """Register a VNF instance with levels of 1, 2 and 3 pods, until the end of the class.

        Only administrators may do so in a namespace of no project. It belongs to the project of the personas.

        :param workload: name of its Deployment, which need not exist.
        """
        admin = cls.entities("project_admin")
        fields = {
            "name": data_utils.rand_name("vnf"),
            "cluster": data_utils.rand_name("cluster"),
            "vnfd_id": "tempest",
            "flavour_id": "simple",
            "vdus": {
                "VDU1": {"workload": {"kind": "Deployment", "name": workload}, "initial": 1, "min": 1, "max": 3},
            },
            "aspects": {"size": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
        }
        vnf = admin.create_entity("vnf_instances", **{**fields, **more})
        cls.addClassResourceCleanup(
            test_utils.call_and_ignore_notfound_exc, admin.delete_entity, "vnf_instances", vnf["id"]
        )
        return vnf

    def begin(self, persona: str, vnf_id: str, holder: str) -> Any:
        """Begin an operation, which ends with the test at the latest."""
        operation = self.operations(persona).begin_operation(vnf_id, "SCALE", holder)
        self.addCleanup(self._end_by_force, vnf_id, operation["id"])
        return operation

    def _end_by_force(self, vnf_id: str, operation_id: str) -> None:
        try:
            self.operations("project_admin").force_end_operation(vnf_id, operation_id)
        except exceptions.Conflict:
            return  # the test has ended it

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        """The value of the condition once it is true.

        :raises TimeoutException: it is not within ``[watcher_sync] build_timeout``.
        """
        values: list[Any] = []

        def is_true() -> bool:
            values[:] = [condition()]
            return bool(values[0])

        options = CONF.watcher_sync
        if not test_utils.call_until_true(is_true, options.build_timeout, options.build_interval):
            raise exceptions.TimeoutException(f"{what}: not within {options.build_timeout} seconds")
        return values[0]

    def shown(self, persona: str, plural: str, entity_id: str) -> Any:
        """The entity as the persona sees it; None: it sees none."""
        return test_utils.call_and_ignore_notfound_exc(self.entities(persona).show_entity, plural, entity_id)
