# SPDX-License-Identifier: Apache-2.0
"""The journal, as it grows.

``cloud_events``  ``POST /v1/events``: CloudEvents 1.0 over HTTP
``events``        ``GET /v1/events``: the journal as a page, a long poll, or a stream
"""
