# SPDX-License-Identifier: Apache-2.0
"""The page at ``/`` and its static files.

``login``  ``POST /v1/login``: a token of Keystone for the name and the password of a user
``page``   The resources ``/`` and ``/static/{name}``, and the security headers of the page
"""
