"""Sandboxes that hold a box: bubblewrap, limits, freezing, the warm pool."""
