# SPDX-License-Identifier: Apache-2.0
"""The same files in a configuration of their own, for options that a library registers, too, in another form."""

from __future__ import annotations

from oslo_config import cfg


def read_privately(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """A configuration of the same files, without a registered option.

    :param conf: one that was never parsed has no files.
    """
    private = cfg.ConfigOpts()
    try:
        files, folders = list(conf.config_file or []), list(conf.config_dir or [])
    except cfg.NoSuchOptError:
        files, folders = [], []
    private([], project="watcher-sync", default_config_files=files, default_config_dirs=folders)
    return private
