"""Commands of the command line that are a file of their own; `workbench.cli` puts them together."""
