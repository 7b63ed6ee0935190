"""What ties code to a device: one class per rule, one file per family in `catalogue`; nothing else knows a pattern."""
