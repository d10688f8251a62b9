"""The web leaderboard: pages and the JSON API."""
