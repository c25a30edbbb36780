# SPDX-License-Identifier: Apache-2.0
"""What a broker answers instead of what was requested."""

from __future__ import annotations


class NotReady(Exception):
    """The queue or stream cannot be consumed, or not any more; the message says why, for a person."""


class NotAnswered(NotReady):
    """The server did not answer in time: the connection is of no use any more."""
