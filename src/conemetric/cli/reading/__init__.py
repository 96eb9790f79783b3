"""Files as tables, pairs and collections; nothing here knows the command line."""
