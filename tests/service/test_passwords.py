"""Passwords: what is kept, who gets in, and what guessing costs."""

import trio

from cmsfs.service import demo, passwords, store

from .conftest import PASSWORD

LOGIN = "uwe@example.com"


def test_two_hashes_of_one_password_differ():
    one, other = passwords.hashed("x"), passwords.hashed("x")
    assert one != other
    assert one.startswith("scrypt$15,8,1$")


async def test_the_right_password_lets_in(service):
    user = service.read("SELECT id FROM user WHERE login = ?", LOGIN)[0]["id"]
    assert await passwords.check(service, LOGIN, PASSWORD) == user
    for login, password in (
        (LOGIN, "wrong"),
        (LOGIN, ""),
        (LOGIN, PASSWORD + " "),
        ("nobody", PASSWORD),
        ("ann@example.com", ""),
    ):
        assert await passwords.check(service, login, password) is None


async def test_guessing_is_slowed_down(service):
    for _ in range(passwords.FREE_ATTEMPTS):
        assert await passwords.check(service, LOGIN, "wrong") is None
    assert await passwords.check(service, LOGIN, PASSWORD) is None
    await service.write(lambda conn: conn.execute("UPDATE password SET locked_until = 5"))
    assert await passwords.check(service, LOGIN, PASSWORD) is not None
    assert service.read("SELECT failures FROM password")[0]["failures"] == 0


async def test_many_attempts_at_once_are_no_way_around(service):
    right = []

    async def attempt(password):
        right.append(await passwords.check(service, LOGIN, password))

    async with trio.open_nursery() as nursery:
        for number in range(passwords.FREE_ATTEMPTS + 5):
            nursery.start_soon(attempt, f"guess {number}")
    assert service.read("SELECT failures FROM password")[0]["failures"] == passwords.FREE_ATTEMPTS


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
