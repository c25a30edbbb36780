# SPDX-License-Identifier: Apache-2.0
"""The levels of scaling aspects: a table that the registration makes once.

``initial`` is a VDU's number of pods at level 0. A delta is the number of pods that one step adds: one number for every
step, or one per step. So level n of an aspect is, for each of its VDUs, the initial number and the first n deltas.

A level matches if *all* its VDUs have its numbers, so the order of the VDUs does not matter. Two aspects may not scale
the same VDU, because their levels would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Level = Mapping[str, int]
"""VDU -> pods."""

Path = tuple[str | int, ...]
"""Where a field is in the registration."""

MOST_PODS = 2**31 - 1
"""Of one VDU, as Kubernetes has it (int32)."""


class BadRegistration(ValueError):
    """A registration whose levels make no sense.

    :ivar errors: (path of the field, what is wrong with it).
    """

    def __init__(self, errors: Iterable[tuple[Path, str]]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(f"{'/'.join(map(str, path))}: {detail}" for path, detail in self.errors))


def expand(vdus: Mapping[str, Any], aspects: Mapping[str, Any]) -> dict[str, list[dict[str, int]]]:
    """The table of levels.

    :param vdus: VDU -> ``initial`` and, where given, ``min`` and ``max``.
    :param aspects: aspect -> ``max_scale_level`` and ``deltas`` {VDU: int or list}.
    :returns: aspect -> for each level from 0, VDU -> pods.
    :raises BadRegistration: naming every field that is wrong.
    """
    errors = [*_wrong_vdus(vdus), *_wrong_aspects(vdus, aspects)]
    if errors:
        raise BadRegistration(errors)
    table = {name: _levels_of(vdus, aspect) for name, aspect in aspects.items()}
    errors = list(_beyond_max(vdus, aspects, table))
    if errors:
        raise BadRegistration(errors)
    return table


def level_of(table: Sequence[Level], observed: Mapping[str, int]) -> int | None:
    """The level whose pods are exactly these, or None."""
    for level, wanted in enumerate(table):
        if wanted.items() <= observed.items():
            return level
    return None


def nearest_lower(table: Sequence[Level], observed: Mapping[str, int]) -> int | None:
    """The highest level that needs no more pods of any VDU than there are; None below level 0."""
    fitting = (n for n, wanted in enumerate(table) if all(observed.get(v, 0) >= c for v, c in wanted.items()))
    return max(fitting, default=None)


def _levels_of(vdus: Mapping[str, Any], aspect: Mapping[str, Any]) -> list[dict[str, int]]:
    levels = [{vdu: int(vdus[vdu]["initial"]) for vdu in aspect["deltas"]}]
    for step in range(int(aspect["max_scale_level"])):
        levels.append({vdu: count + _delta(aspect["deltas"][vdu], step) for vdu, count in levels[-1].items()})
    return levels


def _delta(deltas: Any, step: int) -> int:
    return int(deltas[step] if isinstance(deltas, (list, tuple)) else deltas)


def _wrong_vdus(vdus: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for name, vdu in vdus.items():
        least, most = vdu.get("min") or 0, vdu.get("max")
        if most is not None and most < least:
            yield ("vdus", name, "max"), f"is below min, {least}"
        elif vdu["initial"] < least:
            yield ("vdus", name, "initial"), f"is below min, {least}"
        elif most is not None and vdu["initial"] > most:
            yield ("vdus", name, "initial"), f"is above max, {most}"


def _wrong_aspects(vdus: Mapping[str, Any], aspects: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    scaled: dict[str, str] = {}
    for name, aspect in aspects.items():
        steps = aspect["max_scale_level"]
        if steps < 0:
            yield ("aspects", name, "max_scale_level"), "is below the minimum of 0"
        if not aspect["deltas"]:
            yield ("aspects", name, "deltas"), "names no VDU"
        for vdu, deltas in aspect["deltas"].items():
            path: Path = ("aspects", name, "deltas", vdu)
            if vdu not in vdus:
                yield path, "is no VDU of this registration"
            if vdu in scaled:
                yield path, f"is scaled by the aspect {scaled[vdu]} already"
            scaled.setdefault(vdu, name)
            yield from _wrong_deltas(path, deltas, steps)


def _wrong_deltas(path: Path, deltas: Any, steps: int) -> Iterator[tuple[Path, str]]:
    if not isinstance(deltas, (list, tuple)):
        if deltas < 1:
            yield path, "is below the minimum of 1"
        return
    if len(deltas) < steps:
        yield path, f"has {len(deltas)} deltas for {steps} steps (max_scale_level)"
    for step, delta in enumerate(deltas):
        if delta < 1:
            yield (*path, step), "is below the minimum of 1"


def _beyond_max(
    vdus: Mapping[str, Any], aspects: Mapping[str, Any], table: Mapping[str, Sequence[Level]]
) -> Iterator[tuple[Path, str]]:
    for name in aspects:
        for vdu, count in table[name][-1].items():
            most = vdus[vdu].get("max")
            if most is not None and count > most:
                yield ("aspects", name, "max_scale_level"), f"needs {count} of {vdu}, whose max is {most}"
            elif count > MOST_PODS:
                yield ("aspects", name, "max_scale_level"), f"needs {count} of {vdu}, more than there can be"
