# SPDX-License-Identifier: Apache-2.0
"""Errors of commands, in addition to those of the client."""

from __future__ import annotations

from watcher_sync.client.errors import ClientError


class WrongUsage(ClientError):
    """The command line is wrong in a way that argparse does not notice."""


class PartialFailure(ClientError):
    """The command did a part of its work; the rest failed."""
