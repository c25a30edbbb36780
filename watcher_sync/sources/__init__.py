# SPDX-License-Identifier: Apache-2.0
"""Sources: configured drivers that bring events in and return acknowledgements.

``base``            the base class of all drivers, its contract with the engine, and the status of a source
``cursors``         decodes the stored position in a stream
``redelivery``      emits events again that the engine did not commit
``replay``          the driver ``replay``: recorded events from files
``session``         connections one after the other, consumers on each of them, the state, and the stop
``session_source``  a source with a session: its threads, settlements and figures
"""
