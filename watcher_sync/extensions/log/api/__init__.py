# SPDX-License-Identifier: Apache-2.0
"""The REST resources of outlets that publish on a log.

``outlets``  ``/v1/outlets``: how far each outlet has published
``schemas``  ``/v1/schemas``: the JSON Schemas of published messages
"""
