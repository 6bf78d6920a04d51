"""`cmsfsd` and `python -m daemon`: imports `daemon.command` and runs it."""

import gc


def main() -> None:
    """The entry point."""
    # Nothing of what is loaded is garbage, and a tenth of the time of a start went into finding that out.
    # After a crash whoever works on the drive waits for it.
    gc.disable()
    from cmsfs import process_env

    process_env.load_less()
    from daemon import command

    command.main()


if __name__ == "__main__":
    main()
