"""Rules for operators that do not simply run where their inputs are: one file per family, found by walking."""
