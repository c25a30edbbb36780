# SPDX-License-Identifier: Apache-2.0
"""The driver ``oslo_messaging``: versioned notifications on the notification bus of OpenStack.

``notifications``  A change as a versioned notification
``outlet``         The driver, over the connections of the sources
"""
