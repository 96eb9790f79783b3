"""Run a campaign: ``python -m campaign --help``."""

from .run import main  # what processes are to run must not live in this module

if __name__ == "__main__":
    main()
