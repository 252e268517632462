"""Who lives here: one file each; they never import one another."""
