# SPDX-License-Identifier: Apache-2.0
"""The headers with which a request proves that its caller holds an operation lease.

The secret is in a header of its own. A URL is in logs and a body in histories of shells, so it is in neither.
"""

from __future__ import annotations

from typing import Final

from watcher_sync.api.http.operation import Call
from watcher_sync.operations import Owner, Proof

TOKEN: Final = "Operation-Token"
SECRET: Final = "Operation-Secret"


def owner_of(call: Call) -> Owner:
    """The caller as the owner of a lease."""
    return Owner(call.context.user_id or "", call.context.project_id)


def proof_of(call: Call) -> Proof:
    """What the request presents. Without a secret the proof is always refused."""
    return Proof(owner_of(call), call.request.get_header(SECRET) or "")
