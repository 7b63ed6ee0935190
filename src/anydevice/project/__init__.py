"""Documents times rules: scanning and fixing whole trees, with cache, workers and settings."""
