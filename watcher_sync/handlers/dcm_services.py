# SPDX-License-Identifier: Apache-2.0
"""Deprecated alias of :mod:`watcher_sync.handlers.dcm.service_types`, for plugins; for one release."""

from __future__ import annotations

import typing

from watcher_sync.deprecation import renamed_names
from watcher_sync.handlers.dcm import service_types

if not typing.TYPE_CHECKING:
    __getattr__ = renamed_names(__name__, {"ServiceType": (service_types.__name__, "ServiceType")})
