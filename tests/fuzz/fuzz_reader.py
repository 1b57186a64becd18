"""Coverage-guided fuzzing of one reader of pasted text, by atheris.

Usage: python tests/fuzz/fuzz_reader.py NAME [-max_total_time=60 tests/cases …]
"""

from __future__ import annotations

import sys


def main() -> int:
    import atheris

    name = sys.argv.pop(1) if len(sys.argv) > 1 else "report"
    with atheris.instrument_imports(include=["envcheck"]):
        from envcheck import matrix as matrices
        from envcheck.errors import EnvcheckError
        from envcheck.readers.detect import READERS, read_report
        from envcheck.readers.draft import Draft
        from envcheck.readers.lines import clean, numbered
        from envcheck.redact import redact_text

    symptoms = matrices.load().symptoms
    readers = {reader.__name__.rpartition(".")[2]: reader for reader in READERS}
    if name not in (*readers, "report", "redact"):
        print(f"no reader is called {name}: {', '.join(sorted(readers))}, report, redact")
        return 2

    def once(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        if name == "redact":
            redact_text(text)
        elif name == "report":
            try:
                read_report(text, name="fuzz", symptoms=symptoms)
            except EnvcheckError:
                return
        else:
            draft = Draft()
            text = clean(text)
            readers[name].recognises(text)
            readers[name].read(numbered(text), draft)
            draft.snapshot("fuzz", ())

    atheris.Setup(sys.argv, once)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
