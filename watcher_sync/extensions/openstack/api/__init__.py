# SPDX-License-Identifier: Apache-2.0
"""The REST resources of OpenStack.

``compute_model``  ``GET /v1/compute_model``: hosts and servers of one generation as one document
"""
