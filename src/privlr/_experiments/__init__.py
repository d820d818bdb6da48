"""The experiments of the publications, repeated: what ``privlr reproduce`` runs."""
