#!/usr/bin/python3
"""terminal_svg.py TITLE < TEXT > FILE.svg: a terminal's screen as a picture whose text stays text.

Lines that start with "$ " are what was typed; "{good:…}", "{bad:…}" and "{dim:…}" colour the words in them.
"""

import re
import sys
from xml.sax.saxutils import escape

COLUMN, LINE, MARGIN = 8.4, 20, 20
NO_BREAK = "\u00a0"  # plain spaces collapse
INKS = {"": "#e6e9ee", "good": "#7bd88f", "bad": "#ff9a80", "dim": "#9aa4b2", "typed": "#ffffff"}


def spans(line):
    """(text, ink) of one line."""
    if line.startswith("$ "):
        command, _, comment = line.partition("  #")
        return [(command, "typed"), ("  #" + comment if comment else "", "dim")]
    parts = re.split(r"\{(good|bad|dim):([^}]*)\}", line)
    return [(parts[i], "") if i % 3 == 0 else (parts[i], parts[i - 1]) for i in range(len(parts)) if i % 3 != 1]


def main():
    lines = [spans(line) for line in sys.stdin.read().rstrip("\n").split("\n")]
    width = 2 * MARGIN + COLUMN * max(sum(len(text) for text, _ in line) for line in lines)
    height = 2 * MARGIN + LINE * len(lines)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">')
    print(f"<title>{escape(sys.argv[1])}</title>")
    print('<rect width="100%" height="100%" rx="8" fill="#16191d"/>')
    print('<g font-family="ui-monospace, \'Cascadia Mono\', Menlo, \'Liberation Mono\', monospace" font-size="14">')
    for number, line in enumerate(lines):
        y = MARGIN + LINE * number + 14
        column = 0
        for text, ink in line:
            if text.strip():
                x = MARGIN + COLUMN * column
                print(f'<text x="{x:.1f}" y="{y}" textLength="{COLUMN * len(text):.1f}" fill="{INKS[ink]}">{escape(text).replace(" ", NO_BREAK)}</text>')
            column += len(text)
    print("</g>\n</svg>")


main()
