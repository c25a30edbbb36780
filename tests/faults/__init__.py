# SPDX-License-Identifier: Apache-2.0
"""Long runs against real servers: minutes of load or faults, too long for every run of the tests."""
