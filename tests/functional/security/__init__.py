# SPDX-License-Identifier: Apache-2.0
"""What an attacker tries, a file for each number of the list of threats."""
