"""Fast implementations of heed.functional."""
