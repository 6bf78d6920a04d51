"""The kinds of stories in which each planted bug can show; the search for a bug runs only these.

Each entry overrides fields of the plan that the seed gives.
"""

from dataclasses import replace
from typing import Any

from tests.simulation.story import Plan

_POWER = {"kills": True, "power": True}
_NETWORK = {"faults": 0.15}
_FOLDERS = {"person": True, "folders": True, "filled": True}

_ALONE = {"drives": 1, "person": False, "other": False, "second": False, "kills": False, "troubles": False}
_LATE = {"crowded": True, "late": 0.5, "latency": 0.02, "faults": 0.0, "lies": 0.0}
# Without logins: over such a line a token may expire before it arrives, when hours pass at once.
_FAR = {"crowded": True, "faults": 0.2, "latency": 2.0, "lies": 0.0, "login": False}

# What these break, stories hardly reach: tests/journal/test_group_commit.py and
# tests/replica/merge/test_apply_remote.py notice them.
UNREACHED = ("name_unlinked_early", "lost_folder_takes_unsent_along")

KINDS: dict[str, dict[str, Any]] = {
    "no_fsync_of_drafts": _POWER,
    "no_fsync_of_the_log": _POWER,
    "no_fsync_of_names": _POWER,
    "name_unlinked_early": _POWER | {"large": True},
    "drafts_not_mended": _POWER,
    "fsync_not_waited_for": _POWER,
    "begun_counts_as_running": {"kills": True},
    "position_before_news": {"kills": True, "person": True, "feed": ""},
    "early_hash_taken_for_later": {"parts": True},
    "wrong_range_resumed": _NETWORK | {"parts": True, "large": True, "tight": True},
    "unread_news_dropped": _NETWORK | {"lies": 0.1, "person": True},
    "listed_without_a_page": _NETWORK | {"filled": True, "rough": True, "profile": "box"},
    "old_pages_kept": {"slow": True, "person": True, "crowded": True, "marks": True},
    "unsent_counts_as_sent": _NETWORK | {"tight": True, "large": True, "latency": 2.0},
    "names_not_given_back": {"person": True, "links": True},
    "folder_takes_moved_along": _FOLDERS | {"closed": True},
    "lost_folder_takes_unsent_along": _FOLDERS | {"offline": True},
    "bytes_not_waited_for": {"person": True, "tight": True, "tidy": True, "filled": True, "latency": 2.0},
    "clock_set_back_delays": {"troubles": True, "faults": 0.15},
    "numbers_of_a_backup_believed": {"backup": True, "reused": True, "person": True},
    "deletions_of_a_backup_believed": {"backup": True, "reused": True, "person": True},
    "early_children_collide": _FOLDERS | {"feed": "search", "closed": True},
    "base_too_new": {"person": True, "latency": 0.5},
    "damaged_download_shown": {"lies": 0.1},
    "odd_event_ends_its_page": {"lies": 0.1},
    "late_answer_is_the_base": _ALONE | _LATE,
    "taken_back_move_forgotten": _ALONE | _FAR,
}


def plan(bug: str, number: int, steps: int) -> Plan:
    """Return the plan of this seed, changed so that the bug can show."""
    return replace(Plan.of(number, steps), **KINDS.get(bug, {}))
