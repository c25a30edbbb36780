# SPDX-License-Identifier: Apache-2.0
"""The driver ``kubernetes``: reflectors list and watch the resources of one cluster.

``connection``       GET requests to one cluster's API server, and the two ways in which they fail
``credentials``      Loads the address and the credentials of a cluster into a pool of connections
``discovery``        Finds where an API server serves a kind: plural, scope, and version
``exec_credential``  Gets credentials from the program that the kubeconfig names
``kubeconfig``       Reads kubeconfig files: the cluster and the user of one context
``lister_watcher``   The list and watch requests for one resource, and the pages of a list
``monitor``          The thread that notices an API server that is frozen or cut off
``options``          The options of the driver, and the settings of its reflectors
``progress``         The phase, the counters and the log lines of one reflector
``proxy``            Finds the proxy to an API server, by kubectl's rules
``reflector``        The loop of one reflector: lists one resource, and watches it until it is stopped
``resources``        The resources that a source can follow, and their names in options
``source``           The driver: one source follows one cluster
``target``           One followed cluster as the configuration describes it, and one complete listing of it
``tracker``          Turns the objects of lists and watches into events, and remembers their versions
``watch_stream``     Splits the stream of a watch into lines, and decodes them
"""
