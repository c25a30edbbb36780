# SPDX-License-Identifier: Apache-2.0
"""The journal on a log that other programs read: outlets as plugins.

``api``      The REST resources of the log
``base``     The contract of outlets
``formats``  The two formats of a published change
``schemas``  The JSON Schemas of published changes
"""
