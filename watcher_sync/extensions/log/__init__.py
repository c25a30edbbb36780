# SPDX-License-Identifier: Apache-2.0
"""Outlets that publish the journal on logs.

``checks``     What the upgrade check examines of it
``extension``  What the core asks of it
"""
