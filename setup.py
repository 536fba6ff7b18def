"""A stub for tools that look for this file; the metadata is in pyproject.toml."""

from setuptools import setup

setup()
