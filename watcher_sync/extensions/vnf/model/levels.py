# SPDX-License-Identifier: Apache-2.0
"""The levels of scaling aspects: checked at registration, computed at each evaluation, never stored.

``initial`` is a VDU's number of pods at level 0. A delta is the number of pods that one step adds: one number for every
step, or one per step. So level n of an aspect is, for each of its VDUs, the initial number and the first n deltas.

A level matches if *all* its VDUs have its numbers, so the order of the VDUs does not matter. Two aspects may not scale
the same VDU, because their levels would be ambiguous. Each VDU has a highest level that its pods
suffice for; the lowest of these is the aspect's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Path = tuple[str | int, ...]
"""Where a field is in the registration."""

MOST_PODS = 2**31 - 1
"""Of one VDU, as Kubernetes has it (int32)."""

MAX_VDUS: Final = 200
MAX_ASPECTS: Final = 100
MAX_SCALE_LEVEL: Final = 1000
MAX_COUNTS: Final = 10_000
"""The numbers of pods that all levels of all aspects have: the sum of VDUs times levels, level 0 included."""


class Match(NamedTuple):
    """How the pods of an aspect's VDUs compare with its levels."""

    exact: int | None
    """The level whose pods are exactly these."""
    nearest: int | None
    """The highest level that needs no more pods of any VDU than there are; None below level 0."""


_BELOW: Final = Match(None, None)


class BadRegistration(ValueError):
    """A registration whose levels make no sense.

    :ivar errors: (path of the field, what is wrong with it).
    """

    def __init__(self, errors: Iterable[tuple[Path, str]]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(f"{'/'.join(map(str, path))}: {detail}" for path, detail in self.errors))


def check(vdus: Mapping[str, Any], aspects: Mapping[str, Any]) -> None:
    """Check that the levels of a registration make sense, and that they are not too many.

    :param vdus: VDU -> ``initial`` and, where given, ``min`` and ``max``.
    :param aspects: aspect -> ``max_scale_level`` and ``deltas`` {VDU: int or list}.
    :raises BadRegistration: naming every field that is wrong.
    """
    errors = [*_too_many(vdus, aspects), *_wrong_vdus(vdus), *_wrong_aspects(vdus, aspects)]
    if not errors:
        errors = list(_beyond_max(vdus, aspects))
    if errors:
        raise BadRegistration(errors)


def match(vdus: Mapping[str, Any], aspect: Mapping[str, Any], observed: Mapping[str, int]) -> Match:
    """Compare numbers of pods with the levels of a valid aspect.

    :param observed: VDU -> pods; a VDU that it lacks has none.
    """
    nearest = steps = aspect["max_scale_level"]
    first, exact = None, True
    for vdu, deltas in aspect["deltas"].items():
        added = observed.get(vdu, 0) - vdus[vdu]["initial"]
        if added < 0:
            return _BELOW
        if deltas.__class__ is int:
            level = added // deltas
            if level > steps:
                level = steps
            rest = added - level * deltas
        else:
            level, rest = _highest(deltas, steps, added)
        # Every delta is at least 1, so each VDU has each of its numbers at one level only.
        if rest or (first is not None and first != level):
            exact = False
        first = level
        if level < nearest:
            nearest = level
    return Match(nearest if exact else None, nearest)


def _highest(deltas: Sequence[int], steps: int, added: int) -> tuple[int, int]:
    """The highest level whose deltas are at most the added pods, and how many pods are left over."""
    level = total = 0
    for delta in itertools.islice(deltas, steps):
        if total + delta > added:
            break
        total += delta
        level += 1
    return level, added - total


def _too_many(vdus: Mapping[str, Any], aspects: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    if len(vdus) > MAX_VDUS:
        yield ("vdus",), f"has {len(vdus)} VDUs, more than {MAX_VDUS}"
    if len(aspects) > MAX_ASPECTS:
        yield ("aspects",), f"has {len(aspects)} aspects, more than {MAX_ASPECTS}"
    counts = 0
    for name, aspect in aspects.items():
        steps = aspect["max_scale_level"]
        if steps > MAX_SCALE_LEVEL:
            yield ("aspects", name, "max_scale_level"), f"is above the maximum of {MAX_SCALE_LEVEL}"
            continue
        own = (steps + 1) * len(aspect["deltas"])
        counts += own
        if counts > MAX_COUNTS >= counts - own:
            yield (
                ("aspects", name, "max_scale_level"),
                f"makes {counts} numbers of pods of the levels so far; all aspects may have {MAX_COUNTS} together, "
                "which is levels times VDUs",
            )


def _wrong_vdus(vdus: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for name, vdu in vdus.items():
        least, most = vdu.get("min") or 0, vdu.get("max")
        workload = vdu.get("workload", {"name": ""})
        if ("name" in workload) is ("labels" in workload):
            yield ("vdus", name, "workload"), "needs either a name or labels"
        elif "labels" in workload and workload["kind"] == "Pod":
            yield ("vdus", name, "workload", "labels"), "are not for a Pod, which needs a name"
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


def _beyond_max(vdus: Mapping[str, Any], aspects: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for name, aspect in aspects.items():
        steps = int(aspect["max_scale_level"])
        for vdu, deltas in aspect["deltas"].items():
            added = sum(deltas[:steps]) if isinstance(deltas, (list, tuple)) else steps * deltas
            count, most = int(vdus[vdu]["initial"]) + added, vdus[vdu].get("max")
            if most is not None and count > most:
                yield ("aspects", name, "max_scale_level"), f"needs {count} of {vdu}, whose max is {most}"
            elif count > MOST_PODS:
                yield ("aspects", name, "max_scale_level"), f"needs {count} of {vdu}, more than there can be"
