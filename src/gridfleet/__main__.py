"""`python -m gridfleet` is the `gridfleet` command."""

from gridfleet.cli import main

if __name__ == "__main__":
    main()
