# SPDX-License-Identifier: Apache-2.0
"""Handlers: one event and a view become changes, without I/O. The dialects are in the extensions.

``base``      the base class of handlers
``sortable``  times and ids as text that sorts like them, for versions
"""
