# SPDX-License-Identifier: Apache-2.0
"""Registrations of VNF instances, their evaluation and their sync.

``extension``  What the core asks of it
``on_demand``  Syncs single VNF instances in a process without an engine
``evaluating``  The evaluation of VNF instances, made from the configuration
"""
