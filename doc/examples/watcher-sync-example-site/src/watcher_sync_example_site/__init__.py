# SPDX-License-Identifier: Apache-2.0
"""A source driver, a service type and a capacity provider of one site."""
