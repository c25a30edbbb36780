# SPDX-License-Identifier: Apache-2.0
"""A simulated DCM: builders of status events, and providers that publish legal histories.

``providers`` Simulated providers: legal histories of status events, and the truth after them
``publisher`` Builders for the events of DCM's providers and agents, with all known deviations
"""
