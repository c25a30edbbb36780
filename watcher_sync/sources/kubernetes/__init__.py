# SPDX-License-Identifier: Apache-2.0
"""The driver ``kubernetes``: reflectors list and watch the resources of one cluster.

``connection`` One cluster's API server: who we are to it, and a GET with all its ways to fail
``listing``    Everything that a source follows in a cluster, listed once, for whoever compares
``paging``     A list, page by page
``reflector``  One reflector: a thread that lists one resource of one cluster and watches it from there
``resources``  What can be followed in a cluster, and how an operator names it
``source``     Objects of a Kubernetes cluster, listed and watched
``target``     A followed cluster as the configuration describes it: names, address, credentials, what is followed
``watching``   A watch's stream, cut into lines, and what a line says
"""
