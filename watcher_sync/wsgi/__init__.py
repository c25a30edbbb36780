# SPDX-License-Identifier: Apache-2.0
"""Entry points for WSGI servers."""
