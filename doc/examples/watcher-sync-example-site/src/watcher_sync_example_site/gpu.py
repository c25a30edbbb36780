# SPDX-License-Identifier: Apache-2.0
"""The service type ``gpu`` of DCM. Its events come under the NATS subject ``dcm.gpu``."""

from __future__ import annotations

from watcher_sync.extensions.dcm.handler.service_types import ServiceType

GPU = ServiceType(name="gpu", statuses=frozenset({"IDLE", "BUSY", "DELETED"}), aliases={"FREE": "IDLE"})
