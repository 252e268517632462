"""The mark on files and folders that were written after content from strangers was read.

It is an extended attribute, so it stays with the file through renames and restarts.  Nobody may
rely on its absence who lets others write with the same rights: they can take it off.
"""

import errno
import os

_MARK = "user.elwood.untrusted"
# No such attribute, no attributes here at all, nothing here any more.
_ABSENT = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT})


def is_marked(file: int | str) -> bool:
    """Tell whether *file*, open or named, is marked; if that cannot be told, it counts as marked.

    A link is not followed.
    """
    try:
        if isinstance(file, int):
            os.getxattr(file, _MARK)
        else:
            os.getxattr(file, _MARK, follow_symlinks=False)
    except OSError as error:
        return error.errno not in _ABSENT
    return True


def can_be_kept(fd: int) -> bool:
    """Tell whether the file system of *fd* has room for marks."""
    try:
        os.getxattr(fd, _MARK)
    except OSError as error:
        return error.errno != errno.EOPNOTSUPP
    return True


def mark(fd: int) -> None:
    """Mark the open file or folder.  Raises OSError."""
    os.setxattr(fd, _MARK, b"1")
