"""The control plane: the only package with a database."""

__version__ = "0.1.0"
