# SPDX-License-Identifier: Apache-2.0
"""A simulated DCM: builders of status events, and providers that publish legal histories.

``providers``  Simulated providers, with the truth after each step
``publisher``  Builders for events, with all known deviations
"""
