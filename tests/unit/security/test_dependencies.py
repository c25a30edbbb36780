# SPDX-License-Identifier: Apache-2.0
"""Each requirement has a lower bound: the first release without a known hole, or an earlier one that OpenStack pins."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_ROOT = Path(__file__).parents[3]

_FIRST_WITHOUT_HOLES = {
    "certifi": "2024.7.4",  # CVE-2024-39689
    "cryptography": "46.0.7",  # CVE-2026-26007 and later
    "dnspython": "2.6.1",  # CVE-2023-29483
    "gunicorn": "23.0.0",  # CVE-2024-6827
    "idna": "3.7",  # CVE-2024-3651
    "jinja2": "3.1.6",  # CVE-2025-27516
    "keystonemiddleware": "10.12.1",  # CVE-2026-22797
    "mako": "1.3.11",  # path traversal in TemplateLookup
    "pygments": "2.20.0",  # CVE-2026-4539
    "pyjwt": "2.12.0",  # CVE-2026-32597
    "pymysql": "1.1.1",  # CVE-2024-36039
    "pyyaml": "6.0.1",
    "requests": "2.33.0",  # CVE-2026-25645
    "urllib3": "2.8.0",  # CVE-2026-97687, CVE-2026-97688, CVE-2026-97689
    "webob": "1.8.8",  # CVE-2024-42353
}


def _requirements(name: str) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in (_ROOT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def _lower_bound(requirement: Requirement) -> Version | None:
    bounds = [Version(s.version) for s in requirement.specifier if s.operator in (">=", "==", "===", "~=")]
    return max(bounds, default=None)


def _pins(name: str) -> dict[str, Version | None]:
    return {canonicalize_name(r.name): _lower_bound(r) for r in _requirements(name)}


_OF_OPENSTACK = _pins("openstack-constraints.txt")


_FILES = [
    "requirements.txt",
    "test-requirements.txt",
    "lint-requirements.txt",
    "release-requirements.txt",
    "deploy-requirements.txt",
    "doc/requirements.txt",
]
_PROTO = "proto-requirements.txt"
"""Its environment is its own, with versions that constraints.txt does not have."""


@pytest.mark.parametrize("name", [*_FILES, _PROTO])
def test_each_requirement_has_a_lower_bound(name):
    found = _requirements(name)
    assert found
    assert [str(r) for r in found if _lower_bound(r) is None] == []


@pytest.mark.parametrize("name", [*_FILES, _PROTO])
def test_no_lower_bound_is_a_release_with_a_known_hole(name):
    low = {}
    for requirement in _requirements(name):
        first = _FIRST_WITHOUT_HOLES.get(canonicalize_name(requirement.name))
        bound = _lower_bound(requirement)
        is_pinned_by_openstack = bound == _OF_OPENSTACK.get(canonicalize_name(requirement.name))
        if first is not None and bound is not None and bound < Version(first) and not is_pinned_by_openstack:
            low[requirement.name] = str(bound)
    assert low == {}


def test_every_package_with_a_known_hole_is_required_by_name():
    named = {canonicalize_name(r.name) for name in _FILES for r in _requirements(name)}
    assert sorted(set(_FIRST_WITHOUT_HOLES) - named) == []


@pytest.mark.parametrize("name", _FILES)
def test_the_tested_versions_satisfy_every_requirement(name):
    tested = _pins("constraints.txt")
    unsatisfied = []
    for requirement in _requirements(name):
        pin = tested.get(canonicalize_name(requirement.name))
        if requirement.name in ("setuptools", "wheel"):
            continue  # each interpreter brings its own
        if pin is None or not requirement.specifier.contains(pin):
            unsatisfied.append(f"{requirement}: {pin}")
    assert unsatisfied == []


@pytest.mark.parametrize("name", ["requirements.txt", "test-requirements.txt", "setup.cfg"])
def test_what_openstack_pins_satisfies_every_requirement_and_extra(name):
    if name == "setup.cfg":
        extras = configparser.ConfigParser()
        extras.read(_ROOT / name)
        found = [Requirement(line) for lines in extras["extras"].values() for line in lines.split("\n") if line]
    else:
        found = _requirements(name)
    pins = {str(r): _OF_OPENSTACK.get(canonicalize_name(r.name)) for r in found}
    assert len([pin for pin in pins.values() if pin]) > 1
    assert [r for r, pin in pins.items() if pin and not Requirement(r).specifier.contains(pin)] == []
