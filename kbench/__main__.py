"""`python -m kbench` is `kbench`."""

from kbench.cli.entry import main

main()
