"""``python -m npugraph`` is the command line."""

from npugraph.cli import main

if __name__ == "__main__":
    main()
