"""Texts that would do something if a report took them for more than text."""

import json
import sqlite3

HOSTILE = ("<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1><svg onload=window.hacked=1>"
           "\u202egnorw &amp; {{headline}} ${1} --> ]]> " + "\u05e9\u05dc\u05d5\u05dd " * 40 + "w" * 10_000)
SHOWN = HOSTILE.replace("\u202e", "\ufffd")  # what turns the direction of text is not shown
PAYLOAD = ("</script><script>window.hacked=1;alert(1)</script><!--</style></title></textarea></svg>\"'`><img src=https://evil.invalid/x onerror=alert(1)>"
           "<a href=javascript:alert(1)>x</a>javascript:alert(1) {{{styles}}} {{#sections}} ${alert(1)} \\u003cscript\\u003e \x1b[2J \u2028 \u202e &lt;b&gt;")


def poison(database):
    """Every text that is somebody's own ends with the payload; what has its own words (an arm, a metric) only in some rows."""
    def in_json(value):
        if isinstance(value, str):
            return value + PAYLOAD
        if isinstance(value, list):
            return [in_json(v) for v in value]
        return {k + PAYLOAD if value[k] is None else k: in_json(v) for k, v in value.items()} if isinstance(value, dict) else value

    database.create_function("poisoned", 1, lambda text: text + PAYLOAD if text is not None else None)
    database.create_function("poisoned_json", 1, lambda text: json.dumps(in_json(json.loads(text))) if text is not None else None)
    texts = 0
    for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall():
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
            if kind != "TEXT":
                continue
            some = {"arm": "WHERE pair = 3 AND arm = 'vm'", "metric": "WHERE rowid % 97 = 0", "source": "WHERE rowid % 89 = 0"}.get(column, "")
            for change in ("poisoned", "poisoned_json"):
                try:
                    database.execute(f'UPDATE {table} SET "{column}" = {change}("{column}") {some}')
                    texts += 1
                    break
                except sqlite3.Error:
                    continue  # a word of a list, or JSON
    # What a made-up study leaves open.
    database.execute("UPDATE trial SET valid = 0, invalid_reason = ? WHERE pair = 5", [PAYLOAD])
    database.execute("UPDATE trial SET status = 'failed', throughput = NULL, unit = NULL, failed_stage = ?, failure_reason = ?, console_tail = ?, "
                     "environment = ? WHERE pair = 4 AND arm LIKE 'vm%'", [PAYLOAD] * 3 + [json.dumps({PAYLOAD: PAYLOAD})])
    database.execute("UPDATE experiment SET label = ?, plan = ?, daemon_versions = ?", [PAYLOAD, json.dumps([PAYLOAD]), json.dumps({PAYLOAD: PAYLOAD})])
    return texts
