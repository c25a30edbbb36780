# SPDX-License-Identifier: Apache-2.0
"""The page at ``/`` and its static files.

``page``  The resources ``/`` and ``/static/{name}``, and the security headers of the page
"""
