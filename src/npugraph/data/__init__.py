"""Facts in and out: files, known graphs, the protocol that makes them noisy."""
