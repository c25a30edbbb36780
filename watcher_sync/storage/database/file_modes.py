# SPDX-License-Identifier: Apache-2.0
"""The modes of the files that our processes write: at most 0640.

A umask covers new files. A file of another umask is restricted when a process opens it. A directory is never changed,
because it may be one that other programs share.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

UMASK: Final = 0o027
MAX_MODE: Final = 0o640


def restrict_umask() -> None:
    """Have this process and its children write files with 0640 at most, and directories with 0750.

    A stricter umask remains. The umask is a property of the whole process: call it before threads are started.
    """
    previous = os.umask(0o077)
    os.umask(previous | UMASK)


def restrict(path: str) -> None:
    """Take the bits beyond 0640 from an existing regular file; log a warning if the file is another user's."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or not stat.S_IMODE(found.st_mode) & ~MAX_MODE:
            return
        os.chmod(path, stat.S_IMODE(found.st_mode) & MAX_MODE)
    except FileNotFoundError:
        return
    except OSError as exc:
        LOG.warning("%s: the mode is not 0640 and cannot be changed: %s", path, exc.strerror or exc)
        return
    LOG.info("%s: changed the mode from %04o to %04o", path, stat.S_IMODE(found.st_mode), found.st_mode & MAX_MODE)
