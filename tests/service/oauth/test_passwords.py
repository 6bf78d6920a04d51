"""Passwords: what is kept, who gets in, and what guessing costs."""

from types import SimpleNamespace

import pytest
import trio

from cmsfs.service.oauth import passwords
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from cmsfs.service.storage.shared import attempt_limits
from tests.service.conftest import PASSWORD
from tests.support import cheap_passwords

LOGIN = "uwe@example.com"


def test_two_hashes_of_one_password_differ(monkeypatch):
    monkeypatch.setattr(passwords, "LOG_N", cheap_passwords.SHIPPED)
    one, other = passwords.hashed("x"), passwords.hashed("x")
    assert one != other
    assert one.startswith("scrypt$15,8,1$")


async def test_the_right_password_lets_in(service):
    user = service.read("SELECT id FROM account WHERE login = ?", LOGIN)[0]["id"]
    assert await passwords.check(service, LOGIN, PASSWORD) == user
    for login, password in (
        (LOGIN, "wrong"),
        (LOGIN, ""),
        (LOGIN, PASSWORD + " "),
        ("nobody", PASSWORD),
        ("ann@example.com", ""),
    ):
        assert await passwords.check(service, login, password) is None


@pytest.fixture
def clock(service):
    """`clock.now`: the seconds that attempts are judged by."""
    found = SimpleNamespace(now=0.0)
    service.attempts.clock = lambda: found.now
    return found


async def test_guessing_is_slowed_down_by_more_each_time(service, clock):
    for _ in range(attempt_limits.FREE_GUESSES):
        assert await passwords.check(service, LOGIN, "wrong") is None
    for wait in (1, 2, 4):
        clock.now += wait - 0.1
        assert await passwords.check(service, LOGIN, PASSWORD) is None
        clock.now += 0.1
        assert await passwords.check(service, LOGIN, "wrong") is None
    clock.now += 8
    assert await passwords.check(service, LOGIN, PASSWORD) is not None
    # It begins anew.
    assert await passwords.check(service, LOGIN, "wrong") is None
    assert await passwords.check(service, LOGIN, PASSWORD) is not None


async def test_an_alias_is_no_second_budget(service, clock):
    user = service.read("SELECT id FROM account WHERE login = ?", LOGIN)[0]["id"]
    sql = "INSERT INTO email_alias (account, email) VALUES (?, 'other@example.com')"
    await service.write(lambda conn: conn.execute(sql, (user,)))
    assert await passwords.check(service, "Other@example.com", PASSWORD) == user
    for _ in range(attempt_limits.FREE_GUESSES):
        assert await passwords.check(service, LOGIN, "wrong") is None
    for login in (LOGIN, "OTHER@example.com"):
        assert await passwords.check(service, login, PASSWORD) is None


async def test_a_stranger_locks_nobody_out(service, clock):
    """However often somebody guesses elsewhere, whoever comes from an address of their own gets in."""
    user = service.read("SELECT id FROM account WHERE login = ?", LOGIN)[0]["id"]
    for number in range(attempt_limits.MAX_WRONG_GUESSES):
        assert service.attempts.take(f"192.0.2.{number}", f"user:{user}") == 0
    assert await passwords.check(service, LOGIN, PASSWORD, who="198.51.100.1") is not None
    # Who guesses is made to wait, from the second time on when many do.
    for _ in range(2):
        assert await passwords.check(service, LOGIN, "wrong", who="192.0.2.200") is None
    assert await passwords.check(service, LOGIN, PASSWORD, who="192.0.2.200") is None


async def test_many_attempts_at_once_are_no_way_around(service, clock):
    async def attempt(password):
        assert await passwords.check(service, LOGIN, password) is None

    async with trio.open_nursery() as nursery:
        for number in range(attempt_limits.FREE_GUESSES + 5):
            nursery.start_soon(attempt, f"guess {number}")
    clock.now = 0.9
    assert await passwords.check(service, LOGIN, PASSWORD) is None  # one second: only five were judged
    clock.now = 1
    assert await passwords.check(service, LOGIN, PASSWORD) is not None


async def test_the_samples_people_get_passwords_of_their_own(root):
    async with store.open_store(root) as opened:
        made = await demo.ensure_sample(opened)
        assert made.passwords.keys() == {login for _, login, _ in demo.PEOPLE}
        assert len(set(made.passwords.values())) == len(demo.PEOPLE)
        assert (await demo.ensure_sample(opened)) == made
        user = await passwords.check(opened, "ada@example.com", made.passwords["ada@example.com"])
        assert str(user) == made.user_id
        path = root / "credentials.json"
        assert path.stat().st_mode & 0o777 == 0o600
        path.unlink()
        again = await demo.ensure_sample(opened)
        assert again.passwords != made.passwords
        assert await passwords.check(opened, "ada@example.com", made.passwords["ada@example.com"]) is None
        assert await passwords.check(opened, "ada@example.com", again.passwords["ada@example.com"])
