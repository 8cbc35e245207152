"""Pictures and words about what was promised, from a profile or a comparison; never from data."""
