# SPDX-License-Identifier: Apache-2.0
"""What the extra specs of a flavor ask of a host beside its sizes: NUMA and PCI devices.

The names are those of Nova's flavor extra specs (``nova/api/validation/extra_specs``). An unusable value is unknown
(None), because Nova accepted flavors without validation before microversion 2.86.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

PCI_CLASS_PREFIX: Final = "CUSTOM_PCI_"
"""How Nova begins the resource class of a PCI device in Placement."""

_ALIASES = "pci_passthrough:alias"
_NUMA = {
    "cpu_policy": "hw:cpu_policy",
    "cpu_thread_policy": "hw:cpu_thread_policy",
    "mem_page_size": "hw:mem_page_size",
    "pci_affinity_policy": "hw:pci_numa_affinity_policy",
}
"""Our name -> Nova's, except for the number of nodes."""


class NumaRequest(msgspec.Struct, frozen=True):
    """The NUMA topology that an instance asks for.

    :ivar nodes: number of NUMA nodes of the guest; None: the flavor does not say it, Nova then takes one.
    """

    nodes: int | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None
    mem_page_size: str | None = None
    pci_affinity_policy: str | None = None


class PciRequest(msgspec.Struct, frozen=True):
    """PCI devices that an instance asks for.

    :ivar alias: the name that Nova's configuration gives to the type of device.
    :ivar count: how many.
    """

    alias: str
    count: int


def numa_request(specs: Mapping[str, Any]) -> NumaRequest | None:
    """The NUMA topology that the extra specs ask for; None: they ask for none."""
    given = {ours: str(specs[theirs]) for ours, theirs in _NUMA.items() if specs.get(theirs) is not None}
    if "hw:numa_nodes" not in specs and not given:
        return None
    return NumaRequest(nodes=_positive(specs.get("hw:numa_nodes")), **given)


def pci_requests(specs: Mapping[str, Any]) -> list[PciRequest]:
    """The PCI devices that the extra specs ask for."""
    found = []
    for part in str(specs.get(_ALIASES) or "").split(","):
        alias, _, count = part.strip().rpartition(":")
        number = _positive(count)
        if alias and number is not None:
            found.append(PciRequest(alias.strip(), number))
    return found


def _positive(value: Any) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) else None
