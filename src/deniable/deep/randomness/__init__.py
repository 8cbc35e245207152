"""Noise for training from a cryptographic generator, on the device where it is needed."""

from deniable.deep.randomness.generators import Generator, PhiloxGenerator, SecureGenerator, SeededGenerator

__all__ = ["Generator", "PhiloxGenerator", "SecureGenerator", "SeededGenerator"]
