# SPDX-License-Identifier: Apache-2.0
"""The paths of watch topics and their versions, for servers and clients. Pure.

Axway's SDK says ``v1`` since 1.1.148, and ``v1alpha1`` before. A topic is the same under each of them. The form that a
client asks for is the form of its answers and events.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "management"
VERSIONS: Final = ("v1", "v1alpha1")
"""The versions of the dialect. The first is the one that this project asks for."""
TEMPLATE: Final = f"/{GROUP}/{{version}}/watchtopics"
"""The path of all topics; ``{version}`` is one of the versions."""
COLLECTION: Final = TEMPLATE.format(version=VERSIONS[0])
"""The path of all topics in the first version."""


def self_link(name: str, version: str = VERSIONS[0]) -> str:
    """The path of a topic with this name."""
    return f"{TEMPLATE.format(version=version)}/{name}"


def parts_of(link: str) -> tuple[str, str] | None:
    """The version and the name in the path of a topic; None: it is no such path."""
    collection, _, name = link.rpartition("/")
    found = next((version for version in VERSIONS if collection == TEMPLATE.format(version=version)), None)
    return None if found is None else (found, name)
