"""The line by which a starting daemon tells its launcher that it is ready, or why it failed."""


def ready_line(note: str = "") -> str:
    """The line that tells of a start; a `note` is what the person should know all the same."""
    return f"READY {' '.join(note.split())}".rstrip() + "\n"


def error_line(message: str, exit_code: int) -> str:
    """The line that tells of a failed start."""
    return f"ERROR {exit_code} {' '.join(message.split())}\n"


def parse_ready_line(line: str) -> tuple[int, str]:
    """Exit code and sentence of a start; 0 is success, an unreadable or empty line is not."""
    if line.endswith("\n") and line.split(maxsplit=1)[:1] == ["READY"]:
        return 0, line[len("READY") :].strip()
    word, _, rest = line.strip().partition(" ")
    code, _, sentence = rest.partition(" ")
    if word == "ERROR" and code.isdigit() and sentence:
        return int(code), sentence
    return 1, ""
