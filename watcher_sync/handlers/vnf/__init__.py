# SPDX-License-Identifier: Apache-2.0
"""The evaluation of VNF instances: pods and workloads of a view become the facet ``observed``. Pure.

``handler``  Evaluates one VNF instance on a view and makes its change
"""
