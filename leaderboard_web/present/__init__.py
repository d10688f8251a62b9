"""What templates need said in words, numbers and chart geometry. No HTTP, no database."""
