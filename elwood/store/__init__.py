"""What survives: files, one writer each."""
