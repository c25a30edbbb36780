# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: what notifications lost is found by listing the live systems, and repaired.

=============  ===================================================================================
``base``       what a reconciler is, what it is given, and what it reports
``assembly``   what reconcilers work with, made from the configuration
``plugins``    the installed reconcilers, each with its options
``breaker``    when a scope that fails is left alone, and for how long
``scope``      one scope's due time, run, breaker and figures
``periodic``   the companion of the engine that looks which scope is due, for ever
``figures``    the metrics of all scopes
``notify``     notifications about it for whoever listens
=============  ===================================================================================
"""
