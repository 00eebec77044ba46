"""kbench: is a GPU kernel right, how fast is it, and how far is it from the hardware's limit."""

__version__ = "0.1.0"
