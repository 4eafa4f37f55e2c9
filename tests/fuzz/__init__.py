"""Random instructions through the twin's public API, compared on raw bits with the numpy model.

``draw`` makes the values and places, ``catalog`` says which instructions exist and how each one is
written in C++, ``interpreter`` builds the kernel that executes records of them, ``run`` compares.
"""
