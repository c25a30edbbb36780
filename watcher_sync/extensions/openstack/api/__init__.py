# SPDX-License-Identifier: Apache-2.0
"""The REST resources of OpenStack."""
