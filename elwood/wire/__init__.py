"""What we speak: clients and codecs; no actors, no policy."""
