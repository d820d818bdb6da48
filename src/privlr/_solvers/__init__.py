"""Compiled kernels; see the ``.pxd`` files for the C-level interface."""
