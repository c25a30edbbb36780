# SPDX-License-Identifier: Apache-2.0
"""The budgets of the design, measured: ``python -m tests.benchmarks``.

Every figure that has a reference is measured in pairs with it, subject and reference in turn, in one run on
one machine; what is shown is the median. So a ratio means something on a slow machine too, and a machine
that slows down meanwhile slows both.
"""
