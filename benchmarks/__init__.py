"""What the platform is claimed to do, as programs; `results/` holds what they said, with the machine."""
