# SPDX-License-Identifier: Apache-2.0
"""As in our executables: native threads, chosen before anything of oslo.messaging is imported."""

from __future__ import annotations

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)
