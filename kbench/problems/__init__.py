"""Problems shipped with kbench: KernelBench files with `CASES`."""
