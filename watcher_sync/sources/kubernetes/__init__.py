# SPDX-License-Identifier: Apache-2.0
"""The driver ``kubernetes``: reflectors list and watch the resources of one cluster.

``backoff``         The pauses between the attempts of one reflector
``connection``      GET requests to one cluster's API server, and the two ways in which they fail
``lister_watcher``  The list and watch requests for one resource
``listing``         Lists everything that a source follows once, for reconciliation
``options``         The options of the driver, and the settings of its reflectors
``paging``          Reads a list page by page
``progress``        The phase, the counters and the log lines of one reflector
``redelivery``      Emits events again that the engine did not commit
``reflector``       The loop of one reflector: lists one resource, and watches it until it is stopped
``resources``       The resources that a source can follow, and their names in options
``source``          The driver: one source follows one cluster
``tracker``         Turns the objects of lists and watches into events, and remembers their versions
``watch_stream``    Splits the stream of a watch into lines, and decodes them
"""
