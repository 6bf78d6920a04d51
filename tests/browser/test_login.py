"""`cmsfs login` with a browser: the page asks, the person agrees, the command has its tokens."""

import os
import stat
import subprocess
import sys

import pytest

from cmsfs import config


@pytest.fixture
def logging_in(site, tmp_path):
    """`logging_in()`: the command while it waits for the browser, and the address that it gave to it."""
    # The browser that the command opens is ours: it only writes down where it was sent.
    program = tmp_path / "opened"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/address\n')
    program.chmod(0o700)
    started = []

    def start(*options):
        process = subprocess.Popen(
            [sys.executable, "-m", "cmsfs", "login", site.url, "--yes", "--app", site.credentials, *options],
            env=os.environ | {"BROWSER": str(program)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        told = next(line.strip() for line in process.stderr if line.startswith("  http"))
        assert (tmp_path / "address").read_text() == f"{told}\n"
        return process, told

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_person_agrees_and_the_account_is_theirs(browser, logging_in):
    process, address = logging_in("--token-store", "file")
    browser.open(address)
    browser.log_in("ben@example.com")
    assert browser.title == "Give cmsfs access?"
    browser.press("Grant access")
    assert browser.title == "Access granted"
    assert "You may close this page" in browser.text
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "as Ben Sample <ben@example.com>" in said
    assert stat.S_IMODE(config.Paths("default").token.stat().st_mode) == 0o600
    done = subprocess.run([sys.executable, "-m", "cmsfs", "whoami"], capture_output=True, text=True)
    assert done.stdout.startswith("Ben Sample <ben@example.com>")


def test_a_person_denies(browser, logging_in):
    process, address = logging_in()
    browser.open(address)
    browser.log_in("ben@example.com")
    browser.press("Deny")
    assert browser.title == "No access"
    _, said = process.communicate(timeout=30)
    assert process.returncode == 6
    assert "The access was denied" in said


def test_page_of_another_login_is_rejected(browser, logging_in):
    process, address = logging_in()
    back = address.partition("/start?")[0] + "/callback"
    for _ in ("without the cookie", "with it"):
        browser.open(f"{back}?code=forged&state=forged")
        assert browser.title == "Not this log-in"
        browser.open(address)
    assert process.poll() is None
    browser.open(address)
    browser.log_in("ben@example.com")
    browser.press("Deny")
    process.communicate(timeout=30)
    assert process.returncode == 6
