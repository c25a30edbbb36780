# SPDX-License-Identifier: Apache-2.0
"""The parts of a process, assembled from its configuration. The only package that imports every other.

``engine``    An engine process, assembled from its configuration
``on_demand`` The sync of one VNF instance for whoever asks, in a process that is no engine
``process``   What every executable does first and last: configuration, logging, and errors in one line
``reconcile`` How what compares and follows is put together from its configuration, in an engine and elsewhere
``sources``   The configured sources of a process, as makers of driver instances
``store``     The store of a process, with the entity kinds of the installed plugins
"""
