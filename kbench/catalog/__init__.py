"""Problem and solution files: their format, where they are found, their cases and derived shapes."""
