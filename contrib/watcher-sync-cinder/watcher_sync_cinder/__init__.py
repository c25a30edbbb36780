# SPDX-License-Identifier: Apache-2.0
"""Cinder in the model of watcher_sync.

``handler``     Cinder's notifications become changes
``kinds``       the kinds of entities
``payloads``    the payloads of the notifications
``reconciler``  lists Cinder's API
"""
