"""`python -m cmsfs`: the command line."""

from cmsfs.cli import main

if __name__ == "__main__":
    main.main()
