"""The text of a web link: what it says is found in it again, and nothing else passes for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.models import url_files
from cmsfs.models.content import web_links
from cmsfs.replica import naming
from cmsfs.replica.nodes import NodeKind

ADDRESSES = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["http", "https", "HTTPS"]),
    st.sampled_from(["example.com", "[::1]:8080", "user@host", "müller.example"]),
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=50),
)


@given(ADDRESSES, st.text(st.characters(exclude_categories=["Cs"]), max_size=web_links.MAX_DESCRIPTION))
def test_url_is_found_in_text(url: str, description: str) -> None:
    if not web_links.is_address(url):
        return
    found = url_files.parse(url_files.text(url, description))
    assert found == url_files.ParsedShortcut(url_files.Shortcut(url, description), is_all=True)


@given(st.text(), st.text())
def test_values_cannot_inject_lines(url: str, description: str) -> None:
    lines = url_files.text(url, description).decode().split("\n")
    assert [line.partition("=")[0] for line in lines] == [
        *("[InternetShortcut]", "URL"),
        *(["Comment"] if description else []),
        "",
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    found = url_files.parse(b"[InternetShortcut]\nURL=" + data)
    assert found is None or web_links.is_address(found.shortcut.url)


@pytest.mark.parametrize(
    "data",
    [
        b"[InternetShortcut]\r\nURL=https://example.com/\r\n",
        b"\xef\xbb\xbf[InternetShortcut]\nURL=https://example.com/\n",
        b"[internetshortcut]\nurl = https://example.com/",
        b"\n[InternetShortcut]\n\nURL=https://example.com/\n\n",
    ],
)
def test_foreign_url_formats_parse_equally(data: bytes) -> None:
    assert url_files.parse(data) == ((("https://example.com/", "")), True)


@pytest.mark.parametrize(
    "more",
    [
        b"IconFile=C:\\x.ico\n",
        b"; a note\n",
        b"URL=https://other.example/\n",
        b"[{000214A0-0000-0000-C000-000000000046}]\nProp3=19,2\n",
        b"nonsense\n",
        b"Comment=" + b"x" * 257 + b"\n",
    ],
)
def test_what_a_web_link_cannot_say_is_noticed(more: bytes) -> None:
    found = url_files.parse(b"[InternetShortcut]\nURL=https://example.com/\n" + more)
    assert found is not None
    assert found.shortcut.url == "https://example.com/"
    assert not found.is_all


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"URL=https://example.com/\n",
        b"[InternetShortcut]\nURL=\n",
        b"[InternetShortcut]\nURL=javascript:alert(1)\n",
        b"[InternetShortcut]\nURL=file:///etc/passwd\n",
        b"[InternetShortcut]\nURL=https://\n",
        b"[InternetShortcut]\nURL=https://[broken/\n",
        b"[InternetShortcut]\nURL=https://example.com/ two words\n",
        b"[InternetShortcut]\nURL=https://example.com/\x00\n",
        b"[InternetShortcut]\nURL=https://example.com/\rIconFile=x\n",
        "[InternetShortcut]\nURL=https://example.com/\u202egpj.exe\n".encode(),
        "[InternetShortcut]\nURL=https://example.com/\n".encode("utf-16"),
        b"[InternetShortcut]\nURL=https://example.com/" + b"x" * 5000,
        b"[InternetShortcut]\nURL=https://example.com/\n" + b"\n" * 1_000_000,
        b"[Desktop Entry]\nType=Link\nURL=https://example.com/\n",
    ],
)
def test_other_url_files_are_no_web_links(data: bytes) -> None:
    assert url_files.parse(data) is None


def test_one_thing_is_changed_and_the_other_stays() -> None:
    before = url_files.text("https://a.example/", "one\ntwo")
    assert url_files.edited(before, url="https://b.example/") == url_files.text(
        "https://b.example/", "one\ntwo"
    )
    assert url_files.edited(before, description="") == url_files.text("https://a.example/")


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (b"\xef\xbb\xbf[InternetShortcut]\r\nURL=%b\r\n", {"url": "b"}, None),
        (b"[internetshortcut]\n\nurl =%b", {"url": "b"}, None),
        (b"; URL=x\n[InternetShortcut]\nIconIndex=1\nURL=%b\n[URL=]\nURL=x\n", {"url": "b"}, None),
        (
            b"[InternetShortcut]\r\nURL=%b\r\n",
            {"description": "d"},
            b"[InternetShortcut]\r\nURL=%b\r\nComment=d\r\n",
        ),
        (b"[InternetShortcut]\r\nURL=%b", {"description": "d"}, b"[InternetShortcut]\r\nURL=%b\r\nComment=d"),
        (b"[InternetShortcut]\nComment=c\nURL=%b\n", {"description": ""}, b"[InternetShortcut]\nURL=%b\n"),
        (
            b"[InternetShortcut]\nURL=%b\nComment=c\nComment=d",
            {"description": ""},
            b"[InternetShortcut]\nURL=%b",
        ),
        (b"[InternetShortcut]\nURL=%b\r", {"description": "d"}, b"[InternetShortcut]\nURL=%b\r\nComment=d"),
        (
            b"[InternetShortcut]\nComment=c\nURL=%b\nX=1\n",
            {"description": "d\n"},
            b"[InternetShortcut]\nComment=d\\n\nURL=%b\nX=1\n",
        ),
        (b"[InternetShortcut]\nURL=%b\nX=1\n", {"description": ""}, b"[InternetShortcut]\nURL=%b\nX=1\n"),
    ],
)
def test_url_edit_keeps_other_lines(before: bytes, changes: dict[str, str], after: bytes | None) -> None:
    old, new = b"https://a.example/", b"https://b.example/"
    url = {"url": new.decode()} if "url" in changes else {}
    wanted = (after or before) % (new if url else old)
    assert url_files.edited(before % old, **changes | url) == wanted


@given(
    st.lists(
        st.sampled_from(
            ["", "\r", "Comment=x", "COMMENT = y\r", "URL=https://c.example/\r", "[other]", "a=b", " ; ="]
        ),
        max_size=5,
    ),
    ADDRESSES,
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=web_links.MAX_DESCRIPTION),
)
def test_what_was_edited_says_what_it_was_told(lines: list[str], url: str, description: str | None) -> None:
    if not web_links.is_address(url):
        return
    before = "\n".join(["[InternetShortcut]", "URL=https://a.example/", *lines]).encode()
    was, found = (
        url_files.parse(before),
        url_files.parse(url_files.edited(before, url=url, description=description)),
    )
    assert was is not None and found is not None
    wanted = was.shortcut.description if description is None else description
    assert found.shortcut == url_files.Shortcut(url, wanted)


@given(st.text(min_size=1, max_size=255))
def test_link_name_round_trips(name: str) -> None:
    shown = naming.file_name(NodeKind.LINK, name)
    called = naming.link_name(shown)
    assert called is None or naming.file_name(NodeKind.LINK, called) == shown


@pytest.mark.parametrize("name", ["a", ".url", "a.url.url", " .url", "a .url", "a.URL", "...url", "a.url~"])
def test_a_name_that_no_web_link_can_have(name: str) -> None:
    assert naming.link_name(name) is None
