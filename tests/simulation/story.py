"""Generates stories from seeds: who does what and when.  Steps are independent: any can be left out."""

import random
from dataclasses import dataclass, replace

from tests.simulation import dooms

# The acts of programs, with weight and number of arguments.
ACTS: dict[str, tuple[int, int]] = {  # weight, arguments
    "write": (14, 2),
    "patch": (8, 3),
    "append": (6, 2),
    "log": (4, 2),
    "truncate": (4, 2),
    "regrow": (3, 2),
    "save": (10, 2),
    "backup_save": (4, 2),
    "rename": (8, 2),
    "exchange": (2, 2),
    "move_cold": (3, 2),
    "stat": (4, 0),
    "case": (2, 1),
    "unlink": (5, 1),
    "read": (5, 1),
    "mkdir": (6, 1),
    "rmdir": (3, 1),
    "mvdir": (4, 2),
    "unpack": (3, 2),
    "rmtree": (1, 1),
    "list": (3, 1),
    "undelete": (3, 2),
    "xattr": (2, 2),
    "chmod": (4, 2),
    "past": (2, 1),
    "search": (1, 1),
    "hold": (6, 1),
    "look": (3, 1),
    "held": (10, 3),
    "held_read": (3, 1),
    "held_close": (3, 1),
    "shrink": (3, 0),
    "sync": (4, 0),
    "poll": (4, 1),
    "pin": (1, 1),
    "unpin": (1, 1),
    "free": (2, 1),
    "pause": (1, 1),
    "resume": (1, 0),
    "retry": (1, 0),
}

PERSON: dict[str, tuple[int, int]] = {
    "create": (6, 2),
    "edit": (10, 1),
    "promote": (2, 2),
    "rename": (4, 2),
    "move": (4, 2),
    "folder": (3, 2),
    "move_folder": (2, 2),
    "delete": (4, 1),
    "delete_folder": (1, 1),
    "restore": (3, 2),
    "purge": (1, 2),
    "link": (2, 2),
    "hold": (1, 1),
    "release": (1, 0),
    "share": (3, 2),
    "rights": (2, 1),
    "unshare": (1, 0),
}

# The acts of the account that folders are shared with.
OTHER = {name: PERSON[name] for name in ("create", "edit", "promote", "rename", "move", "folder", "delete")}

# Acts whose effects expire.
AGING = {"retain": (3, 2), "lock": (3, 2), "delete": (8, 1), "restore": (6, 2)}
LOCKS = {"lock": (4, 2)}

# Metadata changes, and changes of files that are in use.
MARKS = {
    "describe": (6, 2),
    "touch": (6, 2),
    "hold": (10, 1),
    "held": (14, 3),
    "chmod": (10, 2),
    "case": (6, 1),
    "unlink": (10, 1),
}
CROWD = {"look": (12, 1), "held_read": (6, 1), "held_close": (6, 1), "chmod": (16, 2), "regret": (12, 2)}
SLOW = {"reopen": (20, 2)}
OF_FILES = {"edit": (20, 1), "rename": (10, 2), "move": (10, 2), "promote": (4, 2), "restore": (8, 2)}

# Folders that are deleted, come back and are made anew, with what is moved into them meanwhile.
OF_FOLDERS = {
    "bury": (8, 2),
    "retrieve": (14, 2),
    "move_folder": (6, 2),
    "folder": (6, 2),
    "restore": (6, 2),
    "delete_folder": (4, 1),
}
IN_FOLDERS = {
    "rebuild": (24, 2),
    "move_in": (16, 2),
    "enter": (10, 1),
    "leave": (2, 0),
    "patch": (12, 3),
}

# A trash that is emptied again and again, and files that are moved without having been read.
TIDY = {"empty_trash": (14, 0), "delete": (8, 1)}
COLD = {"move_cold": (20, 2), "cold_backup": (24, 2), "free": (10, 1), "backup_save": (8, 2)}

# Web links beside files that have the names which these are shown under.
LINKS = {"link": (10, 2), "link_file": (10, 2), "drop_link_file": (10, 2), "move": (8, 2)}

# Files that are removed while they are open, and come back changed.
ORPHANS = {"orphan": (24, 2), "held": (20, 3)}
REVIVE = {"revive": (24, 2), "share": (8, 2), "release": (3, 0)}

# For stories whose last drive belongs to the second account.
SHARES = {"share": (10, 2), "folder": (6, 2), "rights": (4, 1), "unshare": (2, 0)}
OFFERS = {"accept": (6, 2)}

# Faults of a drive's machine other than kills.
TROUBLES = ("full", "rot", "well", "clock", "lose_cache", "remember", "put_back")

# Seconds by which the time is advanced for everybody, so that tokens, locks and retention expire.
AGES = (900, 4000, 2 * 86_400, 8 * 86_400, 40 * 86_400)

# Seconds by which a machine's clock is set forward or back.
JUMPS = (-30 * 86_400, -3600, -90, -5, 5, 90, 3600, 30 * 86_400)


@dataclass(frozen=True, slots=True)
class Step:
    """After a pause, an actor does something; the next step does not wait for its end."""

    pause: float
    actor: str
    act: str
    args: tuple[int, ...] = ()

    @classmethod
    def read(cls, line: str) -> "Step":
        """Parse a step as it is printed."""
        pause, actor, act, *args = line.split()
        return cls(float(pause), actor, act, tuple(map(int, args)))

    def __str__(self) -> str:
        return f"+{self.pause:g} {self.actor} {self.act} {' '.join(map(str, self.args))}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a story."""

    seed: int
    drives: int = 2
    steps: int = 80
    person: bool = True
    other: bool = False  # another user with whom folders are shared
    faults: float = 0.0
    kills: bool = False
    power: bool = False
    troubles: bool = False  # failing disks, wrong clocks, restored snapshots
    offline: bool = False  # for most of the story
    backup: bool = False  # backups of the service are restored
    reused: bool = False  # and it gives their numbers again: only on request
    feed: str | None = None  # None: chosen by the seed
    lies: float = 0.0  # probability of complete but wrong responses and bodies
    parts: bool = False  # files of a few hundred bytes use multipart uploads
    ages: bool = False  # hours and weeks pass
    marks: bool = False  # many metadata changes of files that are in use
    second: bool = False  # the last drive is of the account that folders are shared with
    slow: bool = False  # kernel invalidations are late
    tight: bool = False  # small caches
    filled: bool = False  # items exist before the drives
    latency: float = 0.02  # of the network, in seconds
    late: float = 0.0  # probability that the response to a change takes long, and others overtake it
    crowded: bool = False  # everybody works on a few files, over a slow network
    rests: bool = False  # a quiet period with checks in the middle, too
    large: bool = False  # most files that programs write are large
    folders: bool = False  # many changes of folders
    tidy: bool = False  # the trash is emptied again and again
    links: bool = False  # web links, and files of the same names
    rough: bool = False  # folders are listed in small pages over a network that breaks
    profile: str | None = None  # of the service; None: chosen by the seed
    probes: bool = True  # drives ask the service which operations it has, each time they start
    narrow: bool = False  # the last drive shows one folder of the account
    login: bool = False  # tokens are on the machine's disk, and each refresh invalidates the previous pair
    revived: bool = False  # files that are open are removed, and come back with other contents
    closed: bool = False  # for half of the story the service accepts no changes of the drives

    @property
    def is_shared(self) -> bool:
        """Whether there is more than one drive."""
        return self.drives > 1

    @classmethod
    def of(cls, seed: int, steps: int = 80) -> "Plan":
        """Return the random plan of this seed."""
        chance = random.Random(f"{seed} plan")
        plan = cls(
            seed,
            drives=chance.choice([1, 2, 2, 2, 2, 3]),
            steps=steps,
            person=chance.random() < 0.7,
            other=chance.random() < 0.3,
            faults=chance.choice([0.0, 0.0, 0.05, 0.15]),
            kills=chance.random() < 0.4,
            power=chance.random() < 0.3,
            troubles=chance.random() < 0.3,
            offline=chance.random() < 0.15,
            lies=chance.choice([0.0, 0.0, 0.0, 0.03, 0.1]),
            parts=chance.random() < 0.3,
            ages=chance.random() < 0.2,
            second=chance.random() < 0.15,
            marks=chance.random() < 0.15,
            slow=chance.random() < 0.3,
            tight=chance.random() < 0.3,
            login=chance.random() < 0.25,
        )
        if chance.random() < 0.07:
            plan = plan.alone()
        if chance.random() < 0.15:
            plan = replace(plan, crowded=True, marks=True)
        latency = chance.choice([0.02, 0.02, 0.5, 2.0]) if plan.crowded else chance.choice([0.02] * 7 + [2.0])
        rests = not plan.second and chance.random() < 0.15
        plan = replace(plan, latency=latency, rests=rests, filled=chance.random() < 0.2)
        plan = replace(
            plan,
            large=chance.random() < 0.08,
            folders=chance.random() < 0.12,
            tidy=chance.random() < 0.08,
            links=chance.random() < 0.05,
            rough=chance.random() < 0.05,
            probes=chance.random() < 0.1,
        )
        # A folder whose items expire may be purged itself; then nothing is left to compare.
        is_narrow = chance.random() < 0.08 and plan.person and not (plan.second or plan.ages or plan.login)
        is_revived = chance.random() < 0.05 and plan.person
        closed = chance.random() < 0.06
        late = 0.3 if chance.random() < 0.06 else 0.0
        backup = chance.random() < 0.04
        return replace(plan, narrow=is_narrow, closed=closed, revived=is_revived, late=late, backup=backup)

    def alone(self) -> "Plan":
        """Return the plan with only one drive's programs, and without kills, disk troubles and wrong
        responses."""
        nobody = replace(self, drives=1, person=False, other=False, second=False)
        return replace(nobody, kills=False, troubles=False, lies=0.0)


def steps(plan: Plan) -> list[Step]:
    """Return the steps of a story."""
    chance = random.Random(f"{plan.seed} steps")
    drives = [("one", "two", "three")[number] for number in range(plan.drives)]
    actors = drives * 4 + (["person"] * 2 if plan.person else []) + (["other"] if plan.other else [])
    found = []
    # Each story uses few files, or many.
    span = 2 if plan.crowded else chance.choice([2, 4, 12])
    if plan.rough:
        for _ in range(4):
            found += [Step(chance.random(), drive, "cut_off") for drive in drives]
            found += [Step(0.0, drive, "list", (chance.randrange(4),)) for drive in drives]
            found += [Step(chance.random(), drive, "connect") for drive in drives]
    for number in range(plan.steps):
        if plan.offline and number % 20 == 5:
            found += [Step(0.0, drive, "connect" if number % 40 == 25 else "cut_off") for drive in drives]
        if plan.closed and number % 20 == 5:
            found += [Step(0.0, drive, "open" if number % 40 == 25 else "close") for drive in drives]
        if plan.rests and number == plan.steps // 2:
            found.append(Step(0.0, "story", "rest"))
        pause = chance.choice([0.0, 0.0, 0.0, 0.001, 0.05, 0.5, 0.5, 1.0, 3.0, 5.0])
        disaster = chance.random()
        if plan.faults and not plan.offline and disaster < 0.02:
            found.append(Step(pause, chance.choice(drives), chance.choice(["cut_off", "connect", "silence"])))
            continue
        if plan.kills and disaster < 0.05:
            kind = "power_cut" if plan.power and chance.random() < 0.5 else "kill"
            actor = chance.choice(drives if kind == "power_cut" else [*drives, "service"])
            aim = _aim(plan, chance, actor)
            moments = chance.randrange(8 if aim == dooms.ANSWER else 40)
            found.append(Step(pause, actor, kind, (moments, aim)))
            continue
        if plan.kills and disaster < 0.06:
            found.append(Step(pause, chance.choice(drives), "remount"))
            continue
        if plan.troubles and disaster < 0.1:
            which = (chance.randrange(len(JUMPS)),)
            found.append(Step(pause, chance.choice(drives), chance.choice(TROUBLES), which))
            continue
        if plan.ages and disaster < 0.12:
            found.append(Step(pause, "time", "pass", (chance.randrange(len(AGES)),)))
            continue
        if plan.backup and disaster < 0.13:
            found.append(Step(pause, "service", chance.choice(["remember", "put_back"])))
            continue
        actor = chance.choice(actors)
        acts = {"person": PERSON, "other": OTHER}.get(actor, ACTS)
        if plan.marks:
            acts = {"person": PERSON | OF_FILES, "other": OTHER}.get(actor, ACTS | MARKS)
        if plan.crowded:
            acts = {"person": PERSON | OF_FILES, "other": OTHER | OF_FILES}.get(actor, ACTS | MARKS | CROWD)
        if plan.second and plan.drives > 1:
            shares = PERSON | SHARES
            acts = {"person": shares, "other": OTHER, drives[-1]: ACTS | OFFERS}.get(actor, ACTS)
        if plan.ages:
            acts = {"person": PERSON | AGING, "other": OTHER | LOCKS}.get(actor, ACTS)
        for is_so, of_person, of_programs in (
            (plan.folders, OF_FOLDERS, IN_FOLDERS),
            (plan.tidy, TIDY, COLD),
            (plan.links, LINKS, {}),
            (plan.slow, {}, SLOW),
            (plan.revived, REVIVE, ORPHANS),
        ):
            if is_so:
                acts = acts | (of_programs if actor in drives else of_person if actor == "person" else {})
        act = chance.choices(list(acts), [weight for weight, _ in acts.values()])[0]
        args = tuple(chance.randrange(span if place == 0 else 1000) for place in range(acts[act][1]))
        if act in ("rename", "exchange", "move_cold") and actor in drives:
            args = (args[0], chance.randrange(span))
        found.append(Step(pause, actor, act, args))
    return found


def _aim(plan: Plan, chance: random.Random, actor: str) -> int:
    """Choose when the steps to a kill start to count (see `dooms`)."""
    drawn = chance.random()
    if actor == "service" or drawn < 0.4:
        return dooms.NOW
    if drawn < 0.6:
        return dooms.ANSWER
    if plan.login and drawn < 0.8:
        return chance.choice([dooms.AIMS - 2, dooms.AIMS - 1])
    return 2 + chance.randrange(len(dooms.POINTS))
