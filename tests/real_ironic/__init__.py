# SPDX-License-Identifier: Apache-2.0
"""The model against a real Ironic: API and conductor run, and only the hardware is fake."""
