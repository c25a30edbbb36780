# SPDX-License-Identifier: Apache-2.0
"""What msgspec raises for a text of others: more than its own errors."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a decoder of JSON or MessagePack raises, whatever the bytes are.

They may not be of the format or of the type, may have strings that are no UTF-8, or may be nested too deeply.
"""
