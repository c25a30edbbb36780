# SPDX-License-Identifier: Apache-2.0
"""The page, and the static files that it needs."""
