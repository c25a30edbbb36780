# SPDX-License-Identifier: Apache-2.0
"""The options of OpenStack, beside its accounts.

``capacity``        ``[reconcile_capacity]``: which capacity providers are enabled
``liveness``        ``[liveness]``: when a host counts as down
``reconcile_nova``  ``[reconcile_nova]``: the cloud that is asked
"""
