# SPDX-License-Identifier: Apache-2.0
"""What the software refuses, one module for each way in."""
