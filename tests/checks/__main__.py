# SPDX-License-Identifier: Apache-2.0
"""Runs the prose check."""

from __future__ import annotations

import sys

from tests.checks.prose import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
