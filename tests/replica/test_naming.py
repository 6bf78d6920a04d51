"""Names of items in folders of Linux, and back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.models import wire_names
from cmsfs.replica import naming
from cmsfs.replica.nodes import FILE_MODE, Node, NodeKind

NODE = Node(3, 1, "", NodeKind.FILE, 0, 0, 0, FILE_MODE, None, None, "7", "1", "1", None, "0", None, 1, 0)


def node(kind: NodeKind, base_name: str | None, name: str) -> Node:
    return NODE._replace(kind=kind, base_name=base_name, name=name)


@given(st.text(min_size=1, max_size=255), st.sampled_from([NodeKind.FILE, NodeKind.FOLDER, NodeKind.LINK]))
def test_every_remote_name_maps_back(name: str, kind: NodeKind) -> None:
    here = naming.file_name(kind, name)
    raw = here.encode()
    assert 0 < len(raw) <= naming.MAX_BYTES
    assert b"/" not in raw
    assert b"\0" not in raw
    assert here not in (".", "..")
    assert naming.file_name(kind, name) == here, "stable"
    assert naming.remote_name(node(kind, name, here)) == name, "reversible"


@pytest.mark.parametrize("name", ["plain", ".hidden", "é", "e\u0301", "x" * 255, "a b.c", "…", "#1", "a\\b"])
def test_what_linux_can_hold_is_called_so(name: str) -> None:
    assert naming.file_name(NodeKind.FILE, name) == name
    assert naming.remote_name(node(NodeKind.FILE, name, name)) == name


def test_truncated_name_keeps_its_extension() -> None:
    one, other = "界" * 200 + ".docx", "界" * 200 + "!.docx"
    short = naming.file_name(NodeKind.FILE, one)
    assert short.startswith("界" * 70)
    assert short.endswith(").docx")
    assert naming.file_name(NodeKind.FILE, other) != short


def test_a_new_name_is_what_it_says() -> None:
    short = naming.file_name(NodeKind.FILE, "界" * 200)
    assert naming.remote_name(node(NodeKind.FILE, "something else", short)) == short
    assert naming.remote_name(node(NodeKind.FILE, None, "new")) == "new"
    assert naming.remote_name(node(NodeKind.LINK, None, "new.url")) == "new"


def test_unicode_normalization_clashes() -> None:
    composed, parts = "é", "e\u0301"
    assert naming.file_name(NodeKind.FILE, parts) == parts
    assert wire_names.name_key(composed) == wire_names.name_key(parts)


def test_this_machine_agrees_on_what_is_long(tmp_path: Path) -> None:
    (tmp_path / naming.file_name(NodeKind.FILE, "界" * 255)).touch()
    assert len(list(tmp_path.iterdir())) == 1
