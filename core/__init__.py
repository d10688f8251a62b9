"""What things are: problems, submissions, verdicts, scores, rules, devices, settings. No torch, no SQLAlchemy."""
