#!/usr/bin/python3
"""Messages of the product and of its scripts avoid turns of phrase that are hard to read.

Looks at string literals of tracked C++ sources (adjacent ones are one text) and at quoted strings of scripts/. Of comments it
looks at how they open: "Of the node." and "What it says." are decoded only after the line below them. The project's private
words stay out of messages, of the report's templates and of the guides, docs/*.md but the measurements.
"""

import re
import sys

from lint_test import SOURCE, tracked

TURNS = [  # what is found, what to write
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less)\S+", "'is not a …'"),
    (r", no (?:whole|finite|count)\b", "', which is not a …'"),
    (r"\bno evidence\b", "what the result cannot show"),
    (r"\bso (?:many|long)\b(?! as)", "the number or the unit: 'the last N nights', 'seconds without …'"),
    (r"\bas many (?:together|of each)\b", "the limit, or 'the same number of'"),
    (r"\b(?:tells?|told) of\b", "'reports', 'names'"),
    (r"\bin words\b|\b(?:its|last|\w+'s) words\b", "'its output', 'its message'"),
    (r"\b(?:is|it|unless|not) said\b", "'reported', 'its output', 'default'"),
    (r"\bspeaks? (?:for|against|of)\b", "what was found"),
    (r"\bwhat was virtual\b", "'virtualization'"),
    (r"\bwell again\b|\bto nobody\b|\bby later\b|\bbe it\b|\bof theirs\b|\bthat it is on\b", "a full clause"),
    (r"\blikewise\b|\bof the above\b", "the thing itself once more"),
    (r"\bfloods?\b", "'wrote more than N of …'"),
    (r"\b(?:got|gets?|was|are) level\b(?! with)", "'reached a steady state'"),
    (r"\bfor want of\b", "'out of', 'without'"),
    (r"\b(?:has|have) not(?=\W*$)", "'does not have'"),
]
TURN = re.compile("|".join(f"({turn})" for turn, _ in TURNS), re.IGNORECASE)
WORDS = [  # what is found, what to write; keys, options and states are not messages
    (r"\b(?:lends?|lent|lending)\b", "'assign', 'assigned'"),
    (r"\bmend(?:s|ed|ing)?\b", "'correct', 'fix', 'recovered'"),
    (r"\banew\b", "'again'"),
    (r"\bbeside\b", "'next to', 'in addition to'"),
    (r"(?<!in )\bfacts?\b", "'property'"),
    (r"(?<!every )\bnights?\b", "'run', 'nightly run', 'every night'"),
]
WORD = re.compile("|".join(f"({word})" for word, _ in WORDS), re.IGNORECASE)
SQL = re.compile(r"\b(?:SELECT|FROM|INSERT|UPDATE|DELETE|CREATE|WHERE|JOIN|VALUES)\b")
CODE = re.compile(r"^```.*?^```|^### \S+$|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE)
MARKUP = re.compile(r"\{\{.*?\}\}|<[^>]*?(?:aria-label=\"([^\"]*)\"[^>]*)?>")
ALLOWED = set()  # (file, turn as it is found)
CPP = re.compile(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\((.*?)\)\1\"|\"((?:\\.|[^\"\\\n])*)\"|'(?:\\.[^'\n]{0,7}|[^'\\\n])'", re.DOTALL)
SCRIPT = re.compile(r"(?m)^\s*(?:#|\"\"\").*$|\s#\s.*$|\"((?:\\.|[^\"\\\n])*)\"|'([^'\n]*)'")


HEADLESS = re.compile(r" *///? (?:Of|What) ")


def headless_comments(lines):
    """Numbers of lines with which a comment opens without saying who does what."""
    before = ""
    for number, line in enumerate(lines, 1):
        if HEADLESS.match(line) and not before.lstrip().startswith("//"):
            yield number
        before = line


def texts(pattern, source):
    """Where each text begins, and the text."""
    begin, text, end = 0, "", None
    for match in pattern.finditer(source):
        if match.lastindex is None:  # a comment, or a character
            continue
        if end is None or source[end : match.start()].strip():
            yield begin, text
            begin, text = match.start(), ""
        text, end = text + match[match.lastindex], match.end()
    yield begin, text


def private_words(file, text, begins_at):
    """Complaints about a text in which private words stand; `begins_at` gives the line of a place in it."""
    for found in WORD.finditer(text):
        yield f"{file}:{begins_at(found.start())}: the private word '{found[0]}'; better: {WORDS[found.lastindex - 1][1]}"


def guides():
    for file in tracked(".md"):
        if file == "README.md" or (file.startswith("docs/") and not file.startswith("docs/measurements")):
            source = (SOURCE / file).read_text(encoding="utf-8")
            text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), source)
            yield from private_words(file, text, lambda at: source.count("\n", 0, at) + 1)


def templates():
    for file in (f for f in tracked(".html") if f.startswith("results/report/")):
        text = MARKUP.sub(lambda found: found[1] or " ", (SOURCE / file).read_text(encoding="utf-8"))
        yield from private_words(file, text, lambda at, text=text: text.count("\n", 0, at) + 1)


def main():
    assert list(headless_comments(["int a;", "/// Of a node.", "/// Of b.", "", "  // What is. ", "/// The node's."])) == [2, 5]
    wrong = []
    for file in tracked(".cpp", ".h", ".cu", ".cuh") + [f for f in tracked("") if f.startswith("scripts/")]:
        if file.startswith("tests/"):
            continue
        source = (SOURCE / file).read_text(encoding="utf-8")
        if not file.startswith("scripts/"):
            wrong += [f"{file}:{n}: a comment opens with 'Of' or 'What'; say who does what"
                      for n in headless_comments(source.splitlines())]
        for begin, text in texts(SCRIPT if file.startswith("scripts/") else CPP, source):
            for found in TURN.finditer(re.sub(r"\{[^{}\n]*\}", "{}", text)):
                if (file, found[0]) not in ALLOWED:
                    line = source.count("\n", 0, begin) + 1
                    wrong.append(f"{file}:{line}: '{found[0]}' in a message; better: {TURNS[found.lastindex - 1][1]}")
            if " " in text.strip() and not file.startswith("scripts/") and not SQL.search(text):
                wrong += private_words(file, text, lambda _, begin=begin: source.count("\n", 0, begin) + 1)
    wrong += [*guides(), *templates()]
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
