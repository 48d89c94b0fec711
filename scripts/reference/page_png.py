#!/usr/bin/python3
"""page_png.py PAGE.html FILE.png [--element SELECTOR] [--width PIXELS] [--height PIXELS]: a picture of a report or of one of its elements, such
as '#neighbours-1', as Chromium shows it. docs/pictures has such pictures; docs/testing.md has the commands that make them."""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/browser"))
from browser import Browser  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--element")
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, help="pixels of the whole page, from its top")
    arguments = parser.parse_args()
    with Browser() as browser:
        browser.open(arguments.page.resolve(), arguments.width)
        if arguments.element:
            browser.run("document.querySelector(arguments[0]).style.padding = '20px'", arguments.element)
        arguments.file.write_bytes(browser.screenshot(arguments.element, arguments.height))


main()
