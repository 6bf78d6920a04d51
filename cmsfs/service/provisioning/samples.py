"""The contents of the sample drive: folders, files, web links, and one file in the trash.

Text only, written for this purpose, and one of each thing that administrators manage.  demo.py adds it to a
store.
"""

from dataclasses import dataclass

from cmsfs.models.content.metadata import Field, NewTemplate, Option
from cmsfs.models.enterprise.legal_holds import NewLegalHoldPolicy
from cmsfs.models.enterprise.retention import NewRetentionPolicy
from cmsfs.service.storage.kinds import ItemKind


@dataclass(frozen=True, slots=True)
class Sample:
    """An item of the sample: `text` is a file's content or a web link's address."""

    path: str
    kind: ItemKind = ItemKind.FILE
    text: str = ""
    description: str = ""


def texts() -> set[str]:
    """Return the contents of all files."""
    return {one.text for one in TREE if one.kind is ItemKind.FILE}


def _folder(path: str, description: str = "") -> Sample:
    return Sample(path, ItemKind.FOLDER, description=description)


_WELCOME = """\
# Welcome to your drive

What you see here is a content-management service, mounted as a folder. Everything works as on any disk:

- Open a file, change it, save it. Two seconds later the service has the new version.
- Make folders, rename, move, copy. Your programs need not know that this is not a disk.
- Delete something: it is in `.trash` and can be moved back from there.
- Look at `getfattr -d` of a file: its id, its SHA-1, its owner, whether it is uploaded.

Some places to begin:

| Where | What |
|---|---|
| `Getting started/` | Three short pages, five minutes |
| `Projects/Harbour Bridge/` | A project as offices have them: a plan, a budget, minutes |
| `Reports/2026/` | Tables to open in a spreadsheet |
| `Links/` | Web links of the service, as files that open in a browser |

Nothing here is precious: it is a sample. Break it, and see what happens.
"""

_FIRST_STEPS = """\
# First steps

1. Save a note: `echo "hello" > hello.txt` in this folder.
2. Ask where it is: `cmsfs status`. It is uploaded as soon as you stop changing it.
3. Find it by what it says: `cmsfs search hello`.
4. Delete it, look into `.trash`, and move it back.
"""

_OFFLINE = """\
# Without a network

Folders that you have seen stay visible, files that you have read stay readable, and what you change is
kept on this disk until the service can be reached again. Nothing that was saved is ever dropped.

`cmsfs pin "Projects/Harbour Bridge"` keeps a whole folder on this disk, also what you have not read yet.
"""

_SEARCH = """\
# Finding things

`cmsfs search budget` looks at names, descriptions and the text of files.

- "exact words" in double quotes are found as they stand.
- AND, OR and NOT in upper case combine words: `bridge AND NOT budget`.
- Several words without them mean any of the words.
"""

_PLAN = """\
# Harbour Bridge: plan

Renewal of the footbridge between the fish market and the old lighthouse.

| Phase | From | To | Who |
|---|---|---|---|
| Survey | January | February | Ada |
| Design | March | May | Ben |
| Permits | April | July | Cleo |
| Building | August | November | Ben |

Open: the colour of the railing. The town prefers green, the fishermen prefer anything but green.
"""

_BUDGET = """\
position,planned,spent,remark
Survey,12000,11480,finished
Design,38000,29100,second draft is out
Permits,6500,2100,two of five granted
Steel,145000,0,offers until May
Timber,52000,0,oak or larch
Railing,18000,0,colour to be decided
Lighting,9500,0,
Reserve,25000,0,do not touch
"""

_MINUTES_MARCH = """\
# Minutes, 12 March

Present: Ada, Ben, Cleo.

- The survey is finished; the northern pillar is sounder than feared.
- Ben shows the first draft. The curve stays.
- Cleo asks for the noise report before April.
- Next meeting: 9 April, at the lighthouse if it does not rain.
"""

_MINUTES_APRIL = """\
# Minutes, 9 April

Present: Ada, Cleo. Ben by telephone, from the ferry.

- It rained. We met in the market hall.
- The noise report is in `Permits/`.
- Steel: three offers, opened together in May.
- Railing: put off again.
"""

_NOISE = """\
Noise report, summary

Measured on four days at the eastern quay, between seven and nineteen hours.
Gulls exceed every limit that applies to building sites.
The building site is expected to stay below the gulls.
"""

_CHECKLIST = """\
[x] Water authority
[x] Monument protection
[ ] Harbour master
[ ] Fire brigade
[ ] Neighbours on the eastern quay
"""

_GARDEN = """\
# Roof garden

Twelve beds, one hive, one bench. The lift carries 400 kg: soil goes up in the mornings.

Order in which beds are planted: herbs, beans, tomatoes, then whatever the seed shop has.
"""

_PLANTS = """\
bed,plant,sown,harvest
1,thyme,March,all year
2,parsley,March,June
3,chives,March,May
4,runner beans,May,August
5,peas,April,July
6,tomatoes,February,August
7,courgettes,May,July
8,strawberries,last year,June
"""

_QUARTER = """\
month,visitors,tickets,revenue
{0},{1},{2},{3}
{4},{5},{6},{7}
{8},{9},{10},{11}
"""

_ANNUAL = """\
# The year in short

More visitors than ever in summer, fewer than hoped in November. The bridge project took a third of all
hours and will take half of them next year. The roof garden paid for its own soil.

Figures by quarter stand in the tables beside this file.
"""

_TRAVEL = """\
# Travel expenses

Train before plane, second class before first. Keep receipts; photographs of receipts are receipts.
Meals count up to 28 a day. The ferry is always paid.
"""

_HANDBOOK = """\
# Handbook

How we name files: what it is, then of when. `Minutes 2026-03-12.md`, not `new new final (2).md`.

How we keep them: the service keeps old versions, so nobody needs copies called `old`.

Whom to ask: Ada about money, Ben about bridges, Cleo about everything that needs a signature.
"""

_CONTACTS = """\
name,role,telephone
Ada Example,administration,555-0101
Ben Sample,engineering,555-0102
Cleo Specimen,permits,555-0103
Harbour master,harbour,555-0110
Market hall,caretaker,555-0123
"""

_RECIPE = """\
# Bread for the Friday table

500 g flour, 350 g water, 10 g salt, a little yeast, and a night in the cold.
Hot oven, a lid for half an hour, then without it until it is as dark as you dare.
"""

_HAIKU = """\
Tide comes in at noon.
The bridge is still a drawing.
Gulls inspect the plan.
"""

_READING = """\
- A book about bridges, returned late
- The timetable of the ferry
- "How to keep bees", borrowed from Cleo
"""

_OLD_PLAN = """\
# Harbour Bridge: first idea

A tunnel. (It was late.)
"""


def _table(*values: object) -> str:
    return _QUARTER.format(*values)


TREE = [
    Sample("Welcome.md", text=_WELCOME, description="Start here"),
    _folder("Getting started", "Five minutes with the drive"),
    Sample("Getting started/1 First steps.md", text=_FIRST_STEPS),
    Sample("Getting started/2 Without a network.md", text=_OFFLINE),
    Sample("Getting started/3 Finding things.md", text=_SEARCH),
    _folder("Projects"),
    _folder("Projects/Harbour Bridge", "Renewal of the footbridge"),
    Sample("Projects/Harbour Bridge/Plan.md", text=_PLAN, description="Phases and who does them"),
    Sample("Projects/Harbour Bridge/Budget 2026.csv", text=_BUDGET, description="Planned and spent"),
    _folder("Projects/Harbour Bridge/Minutes"),
    Sample("Projects/Harbour Bridge/Minutes/Minutes 2026-03-12.md", text=_MINUTES_MARCH),
    Sample("Projects/Harbour Bridge/Minutes/Minutes 2026-04-09.md", text=_MINUTES_APRIL),
    _folder("Projects/Harbour Bridge/Permits"),
    Sample("Projects/Harbour Bridge/Permits/Noise report.txt", text=_NOISE),
    Sample("Projects/Harbour Bridge/Permits/Checklist.txt", text=_CHECKLIST),
    Sample("Projects/Harbour Bridge/First idea.md", text=_OLD_PLAN),
    _folder("Projects/Roof Garden"),
    Sample("Projects/Roof Garden/Plan.md", text=_GARDEN),
    Sample("Projects/Roof Garden/Plants.csv", text=_PLANTS, description="What grows where"),
    _folder("Reports"),
    _folder("Reports/2025"),
    Sample("Reports/2025/Year 2025.md", text=_ANNUAL),
    _folder("Reports/2026"),
    Sample(
        "Reports/2026/Visitors Q1.csv",
        text=_table("January", 1204, 980, 7840, "February", 1177, 942, 7536, "March", 1630, 1325, 10600),
    ),
    Sample(
        "Reports/2026/Visitors Q2.csv",
        text=_table("April", 2015, 1710, 13680, "May", 2480, 2102, 16816, "June", 3127, 2690, 21520),
    ),
    Sample(
        "Reports/2026/Visitors Q3.csv",
        text=_table("July", 4408, 3951, 31608, "August", 4721, 4260, 34080, "September", 2886, 2504, 20032),
    ),
    _folder("Office", "What everybody needs now and then"),
    Sample("Office/Handbook.md", text=_HANDBOOK),
    Sample("Office/Travel expenses.md", text=_TRAVEL),
    Sample("Office/Contacts.csv", text=_CONTACTS),
    _folder("Personal"),
    Sample("Personal/Bread.md", text=_RECIPE),
    Sample("Personal/Haiku.txt", text=_HAIKU),
    Sample("Personal/Reading list.txt", text=_READING),
    _folder("Links", "Addresses worth keeping"),
    Sample(
        "Links/Tide table", ItemKind.WEB_LINK, "https://tides.example.com/harbour", "High water, day by day"
    ),
    Sample("Links/Ferry timetable", ItemKind.WEB_LINK, "https://ferry.example.com/timetable?line=2"),
]

TRASHED = {"Projects/Harbour Bridge/First idea.md"}

HOLD = NewLegalHoldPolicy(policy_name="Harbour Bridge permits", description="Asked for by the harbour office")
HELD = "Projects/Harbour Bridge/Permits"

RETENTION = NewRetentionPolicy(
    policy_name="Yearly reports",
    policy_type="finite",
    retention_length=3650,
    disposition_action="remove_retention",
    description="Ten years",
)
RETAINED = "Reports/2025"

TEMPLATE = NewTemplate(
    scope="enterprise",
    template_key="project",
    display_name="Project",
    fields=[
        Field(type="string", key="lead", display_name="Lead"),
        Field(type="float", key="budget", display_name="Budget"),
        Field(type="date", key="due", display_name="Due"),
        Field(
            type="enum", key="phase", display_name="Phase", options=[Option(key="plan"), Option(key="build")]
        ),
    ],
)
DESCRIBED = "Projects/Harbour Bridge/Plan.md"
VALUES = {"lead": "Ada Example", "budget": 480000, "due": "2026-10-30T00:00:00Z", "phase": "build"}
