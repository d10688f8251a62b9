"""Compiling entries off the GPU: sources and flags go into a sandbox of compilers, a library and a report come out. No torch here."""
