"""Start of the command `kbench`: it names the package that is missing where the command line cannot be imported."""

import sys
from typing import NoReturn

from kbench.cli.output import Output, missing_package


def main() -> NoReturn:
    """Run the command line."""
    try:
        from kbench.cli.app import main as run
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        Output().error(missing)
        sys.exit(int(missing.exit_code))
    run()
