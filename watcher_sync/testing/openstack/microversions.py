# SPDX-License-Identifier: Apache-2.0
"""Microversions: parses the header of a request, and refuses what is outside the range."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from watcher_sync.testing.openstack.messages import ApiError

Version = tuple[int, int]

HEADER: Final = "OpenStack-API-Version"
_FORM: Final = re.compile(r"([1-9]\d*)\.([1-9]\d*|0)$")


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def parse(headers: Mapping[str, str], service: str, low: Version, high: Version, *, legacy: str = "") -> Version:
    """The version that a request asks for; the lowest when it names none.

    :param headers: with names in lower case.
    :param legacy: the service's own header of earlier times.
    :raises ApiError: 400 for text that is no version, 406 for a version outside the range.
    """
    given = ""
    for item in headers.get(HEADER.lower(), "").split(","):
        name, _, version = item.strip().partition(" ")
        if name.lower() == service:
            given = version.strip()
    given = given or headers.get(legacy.lower(), "").strip()
    if not given:
        return low
    if given.lower() == "latest":
        return high
    match = _FORM.match(given)
    if match is None:
        message = f"API Version String {given} is of invalid format. Must be of format MajorNum.MinorNum."
        raise ApiError(400, message)
    wanted = int(match[1]), int(match[2])
    if not low <= wanted <= high:
        if service == "placement":
            raise ApiError(406, f"Invalid microversion: Unacceptable version header: {given}")
        raise ApiError(
            406,
            f"Version {given} is not supported by the API. Minimum is {text(low)} and maximum is {text(high)}.",
            answered(service, wanted, legacy),
        )
    return wanted


def answered(service: str, version: Version, legacy: str = "") -> dict[str, str]:
    """The headers with which a service tells the version of its answer."""
    headers = {HEADER: f"{service} {text(version)}", "Vary": HEADER}
    if legacy:
        headers[legacy] = text(version)
        headers["Vary"] = f"{HEADER}, {legacy}"
    return headers
