"""The documents as a package has them, in one folder."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_links_lead_somewhere_in_the_folder_of_the_package(tmp_path: Path) -> None:
    made = runpy.run_path(str(ROOT / "packaging" / "documents.py"))
    made["write"](tmp_path)
    documents = sorted(tmp_path.glob("*.md"))
    assert {"README.md", "GUIDE.md", "TROUBLESHOOTING.md", "ADMINISTRATION.md"} <= {d.name for d in documents}
    links = [
        (document.name, target, anchor)
        for document in documents
        for target, anchor in re.findall(
            r"\]\(([^)#\s]*)(?:#([^)]+))?\)", document.read_text(encoding="utf-8")
        )
        if "://" not in target
    ]
    assert len(links) > 10
    for document, target, anchor in links:
        found = tmp_path / (target or document)
        assert "/" not in target
        assert found.is_file(), (document, target)
        headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), flags=re.M)
        anchors = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
        assert not anchor or anchor in anchors, (document, target, anchor)
    assert "(cmsfs/fuse/GOTCHAS.md)" not in (tmp_path / "README.md").read_text()
