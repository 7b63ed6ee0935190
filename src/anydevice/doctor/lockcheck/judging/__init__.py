"""The judges: one kind of trouble per module, found by walking this package."""
