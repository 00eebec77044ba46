"""Small problems in the KernelBench format that the corpus is judged on."""
