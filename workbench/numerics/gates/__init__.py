"""Which accuracy standard sees which mistake: mutations, and the standards in use."""
