"""`python -m kbench` is `kbench`."""

from kbench.cli.app import main

main()
