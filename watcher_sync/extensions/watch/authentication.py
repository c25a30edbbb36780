# SPDX-License-Identifier: Apache-2.0
"""What every check of a token answers. Used by a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

import msgspec

from watcher_sync.extensions.watch.model.resources import Reader


class AuthenticationUnavailable(Exception):
    """The token could not be checked now."""


class Caller(msgspec.Struct, frozen=True, eq=False):
    """Who a token belongs to, and what the policy allows."""

    user_id: str
    project_id: str | None
    reader: Reader
    """What it sees of the model."""
    may_subscribe: bool
    """Whether it may watch topics of its own project."""
    may_watch: Callable[[str | None], bool]
    """Whether it may watch a topic of this project; None: of none. It may read files."""
    expires_at: float | None = None
    """Seconds since the epoch; None: never."""

    @property
    def identity(self) -> Hashable:
        """The user in the project, for limits."""
        return (self.user_id, self.project_id)

    @property
    def rights(self) -> Hashable:
        """Equal for callers who see the same of every row."""
        return (self.reader.project_id, *sorted(self.reader.hidden))


class Authenticator(Protocol):
    """Checks tokens."""

    def authenticate(self, token: str) -> Caller:
        """Return the caller.

        :param token: the token; empty: there is none.
        :raises InvalidToken: the token is missing, bad or expired.
        :raises AuthenticationUnavailable: the token could not be checked now.
        """
