"""Arrays to pictures."""
