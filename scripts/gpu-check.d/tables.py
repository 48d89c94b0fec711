"""Markdown, and numbers in it."""


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def share(value):
    return "–" if value is None else f"{100 * value:.0f} %"


def gigabytes(value):
    return "–" if value is None else f"{value / 1e9:.1f} GB"


def head(columns):
    return "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)


def line(row):
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def table(columns, rows):
    return "\n".join([head(columns), *map(line, rows)])
