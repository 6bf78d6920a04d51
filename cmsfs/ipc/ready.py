"""The line by which a starting daemon tells its launcher that it is ready, or why it failed."""


def ready_line(note: str = "") -> str:
    """Return the line for a successful start; `note` is a message for the user."""
    return f"READY {' '.join(note.split())}".rstrip() + "\n"


def error_line(message: str, exit_code: int) -> str:
    """Return the line for a failed start."""
    return f"ERROR {exit_code} {' '.join(message.split())}\n"


def parse_ready_line(line: str) -> tuple[int, str]:
    """Return exit code and message of a start; 0 is success, an unreadable or empty line is a failure."""
    if line.endswith("\n") and line.split(maxsplit=1)[:1] == ["READY"]:
        return 0, line[len("READY") :].strip()
    word, _, rest = line.strip().partition(" ")
    code, _, sentence = rest.partition(" ")
    if word == "ERROR" and code.isdigit() and sentence:
        return int(code), sentence
    return 1, ""
