# SPDX-License-Identifier: Apache-2.0
"""What publishers of oslo.messaging's notifications are configured with, for both drivers that listen to them."""

from __future__ import annotations

from typing import Final

from oslo_config import cfg

PRIORITIES: Final = ("audit", "debug", "info", "warn", "error", "critical", "sample")
"""Every priority that Nova and oslo.messaging know. The library acks a message of any other without a call."""

PUBLISHER_OPTS: Final[tuple[cfg.Opt, ...]] = (
    cfg.StrOpt(
        "exchange",
        default="nova",
        help="The exchange that the service publishes to: its [DEFAULT] control_exchange.",
    ),
    cfg.ListOpt(
        "topics",
        default=["versioned_notifications"],
        help="Topics to listen on; the service's [notifications] versioned_notifications_topics.",
    ),
)
"""The options ``exchange`` and ``topics``."""
