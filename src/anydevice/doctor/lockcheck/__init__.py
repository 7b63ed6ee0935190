"""Judges files that say what to install: wrong builds, impossible pins and traps, with line and mend."""
