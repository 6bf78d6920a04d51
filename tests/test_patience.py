"""Limits of tests count what a test could have done."""

import os
import time

import pytest

from tests.support.patience import Patience


def test_a_second_counts_less_on_a_crowded_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.3, 0.0, 0.0))
    patience = Patience(100)
    now = 40.0
    assert patience.left() == 60
    monkeypatch.setattr(os, "getloadavg", lambda: (16.0, 0.0, 0.0))
    now = 200.0
    assert patience.left() == 40
    assert "200 s by the clock, at a load of 16.0 on 2 processors" in str(patience)
    now = 1000.0
    assert patience.left() == 0
