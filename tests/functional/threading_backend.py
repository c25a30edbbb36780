# SPDX-License-Identifier: Apache-2.0
"""Chooses the backend of oslo.service, as the commands do first. Some drivers choose another one at their import."""

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)
