"""Tunes Python's garbage collector for a long-running process.

A sixth of the time of a large listing was spent by the collector in looking through objects that live as
long as the process, and through pages of items that no cycle holds.
"""

import gc

# New objects between two looks at the young ones; a page of items is a few thousands.
YOUNG = 10_000


def freeze_heap() -> None:
    """Leave alone from now on what is there by now, and look seldom.  To be called once all is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()
