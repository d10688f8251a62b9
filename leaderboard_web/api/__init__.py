"""The JSON API, a router for each noun."""
