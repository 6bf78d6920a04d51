"""`cmsfsd` and `python -m daemon`: imports `daemon.command` and runs it."""

import gc
import sys


def main() -> None:
    """The entry point."""
    # Nothing of what is loaded is garbage, and a tenth of the time of a start went into finding that out.
    # After a crash whoever works on the drive waits for it.
    gc.disable()
    # A command line of httpx's own, with libraries for tables and colours: without it, httpx does without.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from cmsfs import process_env

    process_env.set_default("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look at all installed packages
    from daemon import command

    command.main()


if __name__ == "__main__":
    main()
