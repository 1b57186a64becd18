"""The page of every rule as one document, from the docstrings: docs/rules.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.rules.rule import Rule

HEAD = """# Rules

Generated from the rules' docstrings by `pytest --rewrite`; don't edit. A rule that lacks a fact is skipped with the
reason: it never passes on what nobody looked at. Ids and slugs are public for ever.
"""


def render_pages(rules: Iterable[Rule]) -> str:
    """Markdown: an index, then a section a rule with an anchor by its id."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    lines = [HEAD, "| id | slug | severity | what |", "|---|---|---|---|"]
    lines += [f"| [{r.id}](#{r.id.lower()}) | {r.slug} | {r.severity} | {r.title} |" for r in ordered]
    for rule in ordered:
        causes = ", ".join(f"`{cause}`" for cause in dict.fromkeys((rule.cause, *rule.also)))
        body = rule.page.partition("\n")[2].strip()
        lines += ["", f'<a id="{rule.id.lower()}"></a>', f"## {rule.id} {rule.slug}", "", f"**{rule.title}**", ""]
        lines += [f"Severity: {rule.severity}. Causes: {causes}.", "", body]
    return "\n".join(lines) + "\n"
