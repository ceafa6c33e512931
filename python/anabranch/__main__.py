"""The command line: ``python -m anabranch`` is the command ``anabranch``."""

import sys

from . import _core


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    return _core.main(["anabranch", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
