"""A self-hosted personal assistant; start reading at docs/architecture.md."""

__version__ = "0.1.0"
