# SPDX-License-Identifier: Apache-2.0
"""The budgets of the design, measured: ``python -m tests.benchmarks``.

A figure with a reference is measured in pairs: subject and reference in turn, in one run on one machine. The report
shows the median of the pairs. So a ratio is valid on a slow machine too, and a machine that slows down meanwhile
slows both.
"""
