"""The user at the browser: logs in and answers the consent question through the pages' forms.

`python person.py ADDRESS LOGIN PASSWORD ACTION`: the action is `grant`, `deny`, or `address`, which
grants and prints where the browser is sent at the end, in place of going there.
"""

import html
import re
import sys
from pathlib import Path

import httpx


def _fields(page: httpx.Response) -> dict[str, str]:
    found = dict(re.findall(r'name="([a-z_]+)" value="([^"]+)"', page.text))
    return {name: html.unescape(value) for name, value in found.items()}


def main(address: str, login: str, password_file: str, action: str) -> None:
    password = Path(password_file).read_text(encoding="utf-8")
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(address)
        form = _fields(page) | {"action": "login", "login": login, "password": password}
        page = browser.post(page.url, data=form)
        form = _fields(page) | {"action": "deny" if action == "deny" else "grant"}
        page = browser.post(page.url, data=form, follow_redirects=action != "address")
        if action == "address":
            sys.stdout.write(page.headers["location"])


if __name__ == "__main__":
    main(*sys.argv[1:])
