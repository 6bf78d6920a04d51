"""Nautilus's extension: emblems, a column and the menu for files on a drive (`cmsfs_provider.py`)."""

import os
import sys

import gi

gi.require_version("Nautilus", "4.0")

# What the extensions of all file managers share is installed beside them, in share/cmsfs.
_SHARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(_SHARE, "cmsfs", "file-managers"))

import cmsfs_drives  # noqa: E402
import cmsfs_provider  # noqa: E402
from gi.repository import Nautilus  # noqa: E402

cmsfs_drives.TOOLKIT = "4.0"

CmsfsInfo, CmsfsColumn, CmsfsMenu = cmsfs_provider.classes(
    Nautilus, Nautilus.info_provider_update_complete_invoke
)
