"""The `derby` command: contestant commands over HTTP, organizer commands, the local platform."""
