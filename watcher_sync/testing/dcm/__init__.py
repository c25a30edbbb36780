# SPDX-License-Identifier: Apache-2.0
"""A simulated DCM: builders of status events, and providers that publish legal histories.

``providers`` DCM providers that run by themselves: legal histories of status events
``publisher`` What DCM's providers and agents publish: one builder for every event
"""
