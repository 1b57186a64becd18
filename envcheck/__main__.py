"""`python -m envcheck` is the same as `envcheck`."""

from envcheck.cli.start import start

if __name__ == "__main__":
    start()
