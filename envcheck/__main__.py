"""`python -m envcheck` is the same as `envcheck`."""

from envcheck.cli.main import run

if __name__ == "__main__":
    run()
