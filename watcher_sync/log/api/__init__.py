# SPDX-License-Identifier: Apache-2.0
"""The REST resources of the log.

``schemas``  ``/v1/schemas``: the JSON Schemas of published messages
"""
