"""Independent numpy models of documented behaviour; nothing in ``workbench`` imports them."""
