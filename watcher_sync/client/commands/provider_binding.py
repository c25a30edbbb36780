# SPDX-License-Identifier: Apache-2.0
"""``provider binding list`` and ``delete``: which sources are bound to which provider, and their reset."""

from __future__ import annotations

from watcher_sync.client.commands.arguments import AS_OF, FIELDS, argument
from watcher_sync.client.commands.base import Noun
from watcher_sync.client.commands.entity import EntityListCommand

_KIND = "provider_binding"

ProviderBindingDelete = Noun(
    delete=lambda client, _, entity_id: client.delete_provider_binding(entity_id),
    absent=f"there is no {_KIND} with the id",
).delete_command(
    "Reset bindings of sources to providers. The next event of such a source binds it again.",
    argument("chosen", nargs="+", metavar="ID", help="ids of the bindings"),
)


class ProviderBindingList(EntityListCommand):
    """List the sources that are bound to the providers of a DCM control plane."""

    kind = _KIND
    arguments = (AS_OF, FIELDS)
