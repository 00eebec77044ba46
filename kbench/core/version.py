"""The version of kbench, which rows, documents and `--version` quote."""

__version__ = "0.1.0"
