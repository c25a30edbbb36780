# SPDX-License-Identifier: Apache-2.0
"""When to refresh a token: at 4/5 of the remaining life of a JWT, or at a fixed interval for any other token.

The module reads the expiry of a JWT (RFC 7519) without a check of its signature. The service checks the token; the
client needs only the time. It does no I/O and reads no clock.
"""

from __future__ import annotations

import base64
import binascii
import math

import msgspec

REFRESH_INTERVAL_SECONDS = 600.0
"""How often a token that is no JWT is refreshed, unless the caller chooses another interval."""

MIN_REFRESH_SECONDS = 1.0
"""The least time until a refresh, so that an expired token causes no busy loop."""

_FRACTION = 0.8


class _Claims(msgspec.Struct):
    exp: float


def expiry(token: str) -> float | None:
    """The expiry of a JWT in seconds since the epoch; None if the token is no JWT or has no expiry."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    body = parts[1]
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims).exp
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
    return found if math.isfinite(found) else None


def refresh_in(token: str, now: float, interval: float = REFRESH_INTERVAL_SECONDS) -> float:
    """The seconds after which the token must be refreshed.

    :param now: seconds since the epoch.
    :param interval: seconds, for a token that is no JWT.
    """
    expires = expiry(token)
    if expires is None:
        return max(MIN_REFRESH_SECONDS, interval)
    return max(MIN_REFRESH_SECONDS, (expires - now) * _FRACTION)
