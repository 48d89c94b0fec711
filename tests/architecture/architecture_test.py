#!/usr/bin/python3
"""architecture_test.py SOURCE BUILD: the arrows between the folders, read from the includes and from the link graph.

common <- {vmctl, workloads, results} <- harness; the three in the middle never know each other. Who may include and link
what from outside, who may print to standard output, who parses JSON, what computes from values alone, how long a file and how full a folder
may be, in which order the rooms of a folder lie, and where a source is declared. Planted offenders prove that each rule bites.
"""

import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None

MAY_KNOW = {
    "common": {"common"},
    "vmctl": {"common", "vmctl"},
    "workloads": {"common", "workloads"},
    "results": {"common", "results"},
    "harness": {"common", "vmctl", "results", "harness"},  # workloads are started as processes
}
# A header (or library) and the only files (or targets) that may have it.
OWNED_HEADERS = [
    (r"libvirt/", r"vmctl/hypervisor/libvirt/.*"),
    (r"SQLiteCpp/|sqlite3?\.h", r"results/.*|vmctl/journal/.*"),
    (r"cuda|cudnn|nccl|nvml", r"workloads/(.*/cuda|canary|probe|stress)/.*"),
    (r"oneapi/|dnnl", r"workloads/common/onednn\.h"),
    (r"mpi\.h", r"workloads/.*"),
    (r"yaml-cpp/", r"harness/scenario/.*|results/changes/scenario_version\.cpp"),
    (r"pugixml", r"vmctl/.*|results/(diagnosis|exchange)/.*"),
    (r"regex$", r"nobody, for it uses up the stack on long texts \(common/text/scanner\.h\)"),
]
FORBIDDEN_LINKS = [  # (target, library) as link lines spell them
    (r"virtrain|virtrain-agent|virtrain-rsh", r"cuda|cudnn|nccl|dnnl|libmpi|MPI::"),
    (r"virtrain|virtrain_(cli|harness)", r"libvirt|LIBVIRT|virtrain_vmctl"),
    (r"virtrain-agent|virtrain-rsh", r"libvirt|sqlite|SQLiteCpp|yaml-cpp"),
    (r"virtrain-(resnet50-.*|probe|stress)", r"libvirt|sqlite|SQLiteCpp|yaml-cpp"),
]
PRINTS = re.compile(r"std::cout|\bputs\(|\bstd::printf\(|[^fsn:]printf\(|\bfmt::print\((?!stderr|file)|STDOUT_FILENO")
# The command line; the workloads' protocol; and programs of their own.
MAY_PRINT = re.compile(r"harness/cli/.*|workloads/.*|.*_main\.cpp|vmctl/guest/init/.*|harness/(agent/child_process|hosts/elevation|hosts/launcher)\.cpp")
# What others made is read by one parser, which bounds it.
BARE_JSON = re.compile(r"\bjson\s*::\s*(parse|accept|sax_parse|from_(cbor|msgpack|ubjson|bson|bjdata))\b")
MAY_PARSE_JSON = "common/text/json.cpp"
# What others made may be a pipe, a device or a link of somebody else's: it is opened, and made, in one place.
OPENS_FOREIGN = re.compile(r"\bifstream\b[^;=]*[({]|\bfopen\(|\barchive_read_open_filename\b")
MAKES_OUTPUT = re.compile(r"\bofstream\b|\barchive_write_open_filename\b")
# The kernel's control files, a file without a name, and what ranks write for the user that they are.
MAY_MAKE_OUTPUT = re.compile(
    r"vmctl/slice/(cgroups|resctrl)\.cpp|results/exchange/exchange_import\.cpp|workloads/(resnet50|canary)/.*"
)
# What computes from values alone. Who calls it has looked at the machine, and it changes nothing.
PURE = re.compile(
    r"(harness/(evidence|rules|plan)|results/(statistics|comparison|changes)|vmctl/hypervisor/domain)/.*"
    r"|(harness/bisect/search|harness/scenario/(line_pattern|placeholders)|results/diagnosis/(?!read_|diagnosis_table)\w+)\..*"
    r"|results/exchange/readers/(logs/(step_(levels|lines)|mllog_rates)|rank_tag)\..*"
)
# Beside what is pure itself: the language, the libraries that compute, and our values.
PURE_MAY_INCLUDE = re.compile(
    r"(?!(filesystem|fstream|iostream|cstdio|csignal|ctime|thread|mutex|future|condition_variable)$)[a-z_]+"
    r"|fmt/(format|ranges)\.h|nlohmann/json\.hpp|pugixml\.hpp|boost/(describe|math|mp11)/.*|re2/re2\.h"
    r"|common/(contains|enum_text|error)\.h|common/(model|text)/.*|vmctl/api/(?!host\.h|protocol/).*"
    r"|yaml-cpp/.*|harness/scenario/(scenario|host_list)\.h|results/store/(records|comparison_data|nights|probe_settings)\.h"
)
# Rooms of the harness where JSON comes in or goes out; the others have described values.
JSON_EDGES = re.compile(
    r"harness/(agent|hosts|cli|schedule|scenario/(decode|yaml))/.*"
    r"|harness/(evidence/(aggressor|workload_records)|job/plan_file|plan/plan)\..*"
    r"|harness/(security/(canary_tool|killed_run)|trial/run_context)\.cpp"
)
JSON_HEADERS = ("nlohmann/json.hpp", "common/text/json.h", "common/text/described_json.h")
LOOKS_OUTSIDE = re.compile(
    r"\b(read_(file|at_most|tail|value)|write_file_atomically|link_name|entries_of|entry_names|getenv|random_device"
    r"|(steady|system)_clock|std::(system|time))\b"
)
# What tells trials apart is in fields. Names of version 9 are read once; a record's own fields may be what its name ends
# with; the report spells an arm for people; and addresses have an "@", too.
NAME = r"(case_name|arm(_name)?|neighbour|condition(\(\))?|candidate|baseline)"
READS_NAMES = re.compile(
    rf"\b{NAME}\s*(\.|->)\s*(find\w*\(['\"].?['\"]|(rfind|substr|starts_with|ends_with|erase)\()"
    rf"|\bsplit\s*\(\s*([\w.>-]+(\.|->))?{NAME}\b|\bfind\w*\s*\(\s*['\"][@+]['\"]"
)
READS_NAMES_BY_SQL = re.compile(
    r"(substr|instr|replace|trim)\s*\(\s*(\w+\.)?(\"case\"|case_name|arm)(?!\w)|(\"case\"|\bcase_name|\barm)\s+(NOT\s+)?(LIKE|GLOB)\b", re.I
)
MAY_READ_NAMES = re.compile(
    r"results/store/schema/(names_of_version_9|version_009)\.sql|results/exchange/records/record_importer\.cpp"
    r"|results/report/charts/chart\.cpp|harness/schedule/notices\.cpp"
)
MOST_LINES = 1000
# From below to above: a room includes what lies below it, never what lies above. "" is the folder's root.
ROOMS = {
    "common": ["", "model", "text", "files", "system", "frames"],
    "results": [
        *["store/schema", "store", "statistics", "comparison/guard", "comparison/causes", "comparison", "changes", "reading", "tables"],
        *["exchange/records", "exchange/files", "exchange/readers", "exchange/readers/logs", "exchange/exporters", "exchange", "exchange/bundle", "diagnosis", "reproduction"],
        *["report/data", "report/charts", "report/figures", "report/page", "report", "report/site"],
    ],
    "vmctl": [
        *["api", "api/protocol", "process", "devices"],
        *["hypervisor/domain", "hypervisor", "hypervisor/libvirt"],
        *["guest", "guest/mirror", "guest/cloud", "guest/init"],
        *["slice", "machine", "journal"],
        *["resources/kind", "resources/nodes", "resources/devices", "resources"],
        *["doctor/findings", "doctor/checks", "doctor", "host"],
    ],
    "workloads": [
        *["common", "common/gpu", "common/peers", "common/cuda"],
        *["resnet50", "resnet50/training", "resnet50/cpu/operations", "resnet50/cpu"],
        *[f"resnet50/cuda/{room}" for room in ("kernels", "program", "writing", "plan", "engine", "run")],
        *["probe", "stress", "canary"],
    ],
    "harness": [
        *["agent", "agent/client", "scenario", "scenario/yaml", "scenario/edits"],
        *["scenario/decode", "hosts", "plan/devices", "plan"],
        *["evidence", "rules", "job", "trial", "security", "experiment", "schedule", "bisect"],
        *["cli", "cli/commands", "cli/commands/host"],
    ],
}
# Folders whose sources are the entries of a table, and the header that declares them all.
TABLES = {
    "harness/cli/commands": "harness/cli/commands.h",
    "harness/cli/commands/host": "harness/cli/commands.h",
    "harness/scenario/decode": "harness/scenario/decode/sections.h",
    "results/exchange/exporters": "results/exchange/exporters/exporters.h",
    "results/exchange/readers": "results/exchange/readers/readers.h",
    "results/exchange/readers/logs": "results/exchange/readers/readers.h",
    "results/report/figures": "results/report/figures/figures.h",
    "results/report/page": "results/report/page/page.h",
    "vmctl/doctor/checks": "vmctl/doctor/checks/tables.h",
    "vmctl/resources/devices": "vmctl/resources/kind/handler.h",
    "vmctl/resources/nodes": "vmctl/resources/kind/handler.h",
    "workloads/resnet50/cuda/kernels": "workloads/resnet50/cuda/kernels/kernels.h",
}


def folder_of(path):
    return path.split("/", 1)[0]


def includes_of(text):
    """Line and header of each include, in whatever form."""
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, match.group(1)


def include_offences(path, text):
    """What is wrong with the includes of one file, as 'path:line: words'."""
    found = []
    for number, header in includes_of(text):
        target, own = folder_of(header), folder_of(path)
        if target in MAY_KNOW and target not in MAY_KNOW[own]:
            found.append(f"{path}:{number}: {own} may not know {target} ({header})")
        for pattern, owners in OWNED_HEADERS:
            if re.match(pattern, header) and not re.fullmatch(owners, path):
                found.append(f"{path}:{number}: {header} belongs to {owners}")
    return found


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S))


def print_offences(path, text):
    if MAY_PRINT.fullmatch(path):
        return []
    lines = without_comments(text).split("\n")
    return [f"{path}:{n}: only the command line prints to standard output" for n, line in enumerate(lines, 1) if PRINTS.search(line)]


def json_offences(path, text):
    if path == MAY_PARSE_JSON:
        return []
    lines = without_comments(text).split("\n")
    return [f"{path}:{n}: parse_json() of common/text/json.h bounds what it reads, this does not" for n, line in enumerate(lines, 1) if BARE_JSON.search(line)]


def inner_json_offences(path, text):
    """Where the harness has described values, JSON of what others said does not come in again."""
    if folder_of(path) != "harness" or JSON_EDGES.fullmatch(path):
        return []
    lines = without_comments(text).split("\n")
    found = [f"{path}:{n}: JSON ends at the harness's edges; read it there into a described record" for n, line in enumerate(lines, 1)
             if re.search(r"\bnlohmann::|\.(detail|workload)\s*\[", line)]
    return found + [f"{path}:{n}: JSON ends at the harness's edges ({header})" for n, header in includes_of(text) if header in JSON_HEADERS]


def stream_offences(path, text):
    if path.startswith("common/files/"):
        return []
    found = []
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if OPENS_FOREIGN.search(line):
            found.append(f"{path}:{number}: open_stream() and read_file() of common/files/reading.h look at what they open, this does not")
        if MAKES_OUTPUT.search(line) and not MAY_MAKE_OUTPUT.fullmatch(path):
            found.append(f"{path}:{number}: write_whole() and replace_file() of common/files/new_file.h follow no link, this may")
    return found


def purity_offences(path, text):
    if not PURE.fullmatch(path):
        return []
    found = [f"{path}:{number}: computes from values alone, and may not know {header}"
             for number, header in includes_of(text) if not PURE.fullmatch(header) and not PURE_MAY_INCLUDE.fullmatch(header)]
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if match := LOOKS_OUTSIDE.search(line):
            found.append(f"{path}:{number}: computes from values alone, without {match.group(0)}")
    return found


def length_offences(path, text):
    lines = text.count("\n")
    return [f"{path}: {lines} lines, more than {MOST_LINES}"] if lines > MOST_LINES else []


def name_offences(path, text):
    """A trial's key is fields: nothing reads the name of a case or an arm back."""
    if not path.startswith(("results/", "harness/")) or MAY_READ_NAMES.fullmatch(path):
        return []
    pattern = READS_NAMES_BY_SQL if path.endswith(".sql") else READS_NAMES
    return [f"{path}:{number}: a name is not taken apart; use the key's fields (common/model/trial_key.h)"
            for number, line in enumerate(without_comments(text).split("\n"), 1) if pattern.search(line)]


def node_offences(path, text):
    """Of vmctl the harness knows the api alone, and which kind of node it has is only the plan's to say."""
    if folder_of(path) != "harness":
        return []
    found = [f"{path}:{number}: the harness may know vmctl/api only ({header})"
             for number, header in includes_of(text) if re.match("vmctl/(?!api/)", header)]
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\bis_vm\b", line) and not path.startswith("harness/plan/"):
            found.append(f"{path}:{number}: the plan names the arm, and the host makes its nodes")
    return found


def room_offences(path, text):
    """Includes of one file that run up."""
    def room_of(file):
        return file.rpartition("/")[0].partition("/")[2]

    top, own, found = folder_of(path), room_of(path), []
    if top not in ROOMS:
        return []
    if own not in ROOMS[top]:
        return [f"{path}: {top} has no room '{own}'"]
    above = ROOMS[top][ROOMS[top].index(own) + 1 :]
    for number, header in includes_of(text):
        if folder_of(header) == top and room_of(header) in above:
            found.append(f"{path}:{number}: {room_of(header)} lies above {own or top}")
    return found


def header_offences(paths):
    """Sources that no header of their folder declares by its name: store_read.cpp is declared in store_read.h or store.h, cpu_load.cpp in
    load.h."""
    headers, found = {}, []
    for path in paths:
        folder, name = path.rsplit("/", 1)
        if path.endswith((".h", ".cuh")):
            headers.setdefault(folder, set()).add(name.split(".")[0])
    for path in paths:
        folder, name = path.rsplit("/", 1)
        stem = name.split(".")[0]
        if not path.endswith((".cpp", ".cu")) or re.fullmatch(r"(.*_)?main|init", stem) or folder in TABLES:
            continue
        if not any(f"_{header}_" in f"_{stem}_" for header in headers.get(folder, ())):
            found.append(f"{path}: declared in no header of its name")
    return found


def link_offences(folder_of_target, links):
    """folder_of_target: {target: folder}; links: {target: set of targets and libraries}, direct or not."""
    found = []
    for target, others in sorted(links.items()):
        own = folder_of_target.get(target)
        for other in sorted(others):
            folder = folder_of_target.get(other)
            if own in MAY_KNOW and folder in MAY_KNOW and folder not in MAY_KNOW[own]:
                found.append(f"target {target} ({own}) may not link {other} ({folder})")
            for targets, libraries in FORBIDDEN_LINKS:
                if re.fullmatch(targets, target) and re.search(libraries, other, re.IGNORECASE):
                    found.append(f"target {target} may not link {other}")
    return found


def read_links(text):
    """What write_links.cmake wrote, a line 'FOLDER TARGET LIBRARY;LIBRARY': ({target: folder}, {target: all it reaches})."""
    folders, direct = {}, {}
    for line in text.splitlines():
        folder, target, libraries = line.split(" ", 2)
        folders[target] = folder
        direct[target] = {re.sub(r"^\$<LINK_ONLY:(.*)>$", r"\1", library) for library in libraries.split(";") if library}

    def reach(target, seen):
        for other in direct.get(target, ()):
            if other not in seen:
                seen.add(other)
                reach(other, seen)
        return seen

    return folders, {target: reach(target, set()) for target in direct}


# What a text can be passed as. Of two functions of one name that differ in these alone a unity build takes the other one, in silence.
TEXT = re.compile(r"(const )?(std::string(_view)?|std::optional<std::string>|(std::filesystem|fs)::path|nlohmann::json|std::set<std::string>)&?"
                  r"|const char\*")
LOCAL_FUNCTION = re.compile(r"^[A-Za-z_][\w:<>,\s*&]*?[\s*&]([a-z_]\w*)\(((?:[^()]|\([^()]*\))*)\) (?:const |noexcept )?\{", re.M)


def local_functions(text):
    """Name and types of the parameters of each function that is a file's own."""
    for body in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.M | re.S):
        for match in LOCAL_FUNCTION.finditer(body):
            parameters = re.sub(r"<[^<>]*(<[^<>]*>)?[^<>]*>", lambda m: m.group(0).replace(",", ";"), " ".join(match.group(2).split()))
            yield match.group(1), [re.sub(r"( \w+)?( = .*)?$", "", one.strip()) if one.count(" ") > one.startswith("const ") else one.strip()
                                   for one in parameters.split(",") if one.strip()]


def overload_offences(files):
    seen, found = {}, []
    for path, text in files:
        for name, types in local_functions(text):
            others = seen.setdefault((folder_of(path), name, len(types)), [])
            for other_path, other in others:
                alike = all(a == b or TEXT.fullmatch(a) and TEXT.fullmatch(b) for a, b in zip(types, other))
                if other_path != path and other != types and alike:
                    found.append(f"{path}: {name}() of this file and that of {other_path} take texts: one needs another name")
            others.append((path, types))
    return found


def source_files():
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files"], capture_output=True, text=True, check=False).stdout.split("\n")
    if not listed[0]:  # an archive without its history
        listed = [str(p.relative_to(SOURCE)) for folder in MAY_KNOW for p in (SOURCE / folder).rglob("*")]
    return [f for f in listed if f.endswith((".h", ".cpp", ".cu", ".cuh")) and (SOURCE / f).exists()]


def product_files():
    return [(f, (SOURCE / f).read_text(encoding="utf-8")) for f in source_files() if folder_of(f) in MAY_KNOW]


class Planted(unittest.TestCase):
    """A rule of lines, held against some that offend and some that do not."""

    def assert_each_offends(self, offences, planted):
        for path, line in planted:
            with self.subTest(path=path, line=line):
                found = offences(path, f"#pragma once\n{line}\n")
                self.assertEqual([one[: len(path) + 4] for one in found], [f"{path}:2: "])

    def assert_none_offends(self, offences, planted):
        for path, line in planted:
            with self.subTest(path=path, line=line):
                self.assertEqual(offences(path, f"{line}\n"), [])


class Includes(Planted):
    def test_arrows(self):
        files = product_files()
        self.assertGreater(len(files), 100)
        self.assertEqual([o for f, text in files for o in include_offences(f, text)], [])

    def test_planted_offenders(self):
        headers = [
            ("common/text/text.cpp", "vmctl/process/paths.h"),
            ("vmctl/process/paths.cpp", "results/store/store.h"),
            ("results/store/store.cpp", "vmctl/journal/leases.h"),
            ("workloads/x.cpp", "harness/agent/frame.h"),
            ("results/exchange/x.cpp", "regex"),
            ("harness/plan/plan.cpp", "workloads/resnet50/model.h"),
            ("vmctl/doctor/doctor.cpp", "libvirt/libvirt.h"),
            ("harness/trial/x.cpp", "SQLiteCpp/SQLiteCpp.h"),
            ("vmctl/doctor/doctor.cpp", "sqlite3.h"),
            ("harness/cli/x.cpp", "cuda_runtime.h"),
            ("harness/cli/x.cpp", "mpi.h"),
            ("vmctl/x.cpp", "oneapi/dnnl/dnnl.hpp"),
        ]
        for line in ("#include <{}>", '  #  include "{}"'):
            self.assert_each_offends(include_offences, [(path, line.format(header)) for path, header in headers])
        self.assert_none_offends(include_offences, [
            ("vmctl/hypervisor/libvirt/x.cpp", '#include <libvirt/libvirt.h>\n#include "common/text/text.h"'),
        ])


class Printing(unittest.TestCase):
    def test_only_the_command_line_prints(self):
        self.assertEqual([o for f, text in product_files() for o in print_offences(f, text)], [])

    def test_planted_offenders(self):
        for line in ["std::cout << 1;", 'fmt::print("x");', "fmt::print(format, 1);", 'std::printf("x");', 'printf("x");', 'puts("x");']:
            with self.subTest(line):
                self.assertEqual(len(print_offences("results/x.cpp", f"void f() {{\n  {line}\n}}\n")), 1)
        for line in ["fmt::print(stderr, 1);", "std::fprintf(stderr, 1);", "// std::cout", "std::snprintf(b, 1, c);"]:
            with self.subTest(line):
                self.assertEqual(print_offences("results/x.cpp", f"  {line}\n"), [])


class ForeignFiles(Planted):
    def test_one_place_opens_them(self):
        self.assertEqual([o for f, text in product_files() for o in stream_offences(f, text)], [])

    def test_planted_offenders(self):
        self.assert_each_offends(stream_offences, [("results/x.cpp", line) for line in (
            "std::ifstream in(file);", "std::ifstream(file) >> word;", "std::ifstream in{file};", 'std::fopen(name, "r");',
            "archive_read_open_filename(a, b, c);", "std::ofstream out(file);", "archive_write_open_filename(a, b);")])
        self.assert_none_offends(stream_offences, [
            ("results/x.cpp", "std::ifstream stream;"), ("results/x.cpp", "auto in = open_stream(file);"),
            ("vmctl/slice/cgroups.cpp", "std::ofstream out(file);"), ("common/files/reading.cpp", "std::ifstream in(file);")])


class Names(Planted):
    def test_nothing_reads_a_name_back(self):
        files = product_files() + [(str(f.relative_to(SOURCE)), f.read_text(encoding="utf-8")) for f in SOURCE.glob("results/**/*.sql")]
        self.assertGreater(len([f for f, _ in files if f.endswith(".sql")]), 20)
        self.assertEqual([o for f, text in files for o in name_offences(f, text)], [])

    def test_planted_offenders(self):
        self.assert_each_offends(name_offences, [
            ("results/comparison/x.cpp", "const auto at = case_name.find('@');"), ("results/comparison/x.cpp", "const auto plus = arm.find('+');"),
            ("results/tables/x.cpp", "comparison.case_name.substr(0, 4)"), ("results/comparison/x.cpp", "if (row->arm.ends_with(ending)) {"),
            ("harness/bisect/x.cpp", "split(subject.case_name, '/')"), ("harness/cli/x.cpp", "const auto at = text.find('@');"),
            ("results/store/queries/x.sql", "WHERE n.\"case\" LIKE '%/' || n.nodes"), ("results/store/queries/x.sql", "substr(t.\"case\", 1, 4) AS family"),
            ("results/store/queries/x.sql", "instr(arm, '+')")])
        self.assert_none_offends(name_offences, [
            ("results/comparison/x.cpp", "printed(key) + case_name"), ("results/comparison/x.cpp", "cases.find(case_name)"),
            ("results/store/queries/x.sql", "substr(armour, 1)"), ("vmctl/x.cpp", "arm.find('+')"), ("results/comparison/x.cpp", "arm.find(\"changes\")")])


class ForeignText(unittest.TestCase):
    def test_one_place_parses_json(self):
        self.assertEqual([o for f, text in product_files() for o in json_offences(f, text)], [])

    def test_planted_offenders(self):
        for line in ["nlohmann::json::parse(text)", "json :: parse(begin, end)", "nlohmann::json::accept(text)", "json::from_cbor(bytes)"]:
            with self.subTest(line):
                self.assertEqual(len(json_offences("results/x.cpp", f"\nauto x = {line};\n")), 1)
        self.assertEqual(json_offences("results/x.cpp", "nlohmann::json::parse_event_t e; // json::parse(\nparse_json(text);"), [])
        self.assertEqual(json_offences("common/text/json.cpp", "json::parse(text)"), [])

    def test_json_stays_at_the_edges(self):
        self.assertEqual([o for f, text in product_files() for o in inner_json_offences(f, text)], [])

    def test_planted_json_inside(self):
        for path in ["harness/rules/x.cpp", "harness/evidence/rank_output.cpp", "harness/job/stress_job.cpp", "harness/plan/node_group.cpp", "harness/bisect/x.cpp",
                     "harness/trial/trial_records.cpp", "harness/trial/run_context.h", "harness/security/device_peer.cpp",
                     "harness/security/canary_tool.h", "harness/security/network_searches.h"]:
            for line in ["#include <nlohmann/json.hpp>", '#include "common/text/described_json.h"', "std::optional<nlohmann::json> hello;",
                         'tenant.record.workload["stressors"] = steps;']:
                with self.subTest(f"{path}: {line}"):
                    self.assertEqual(len(inner_json_offences(path, f"{line}\n")), 1)
        for path in ["harness/agent/frame.cpp", "harness/evidence/workload_records.cpp", "harness/trial/run_context.cpp", "results/x.cpp"]:
            self.assertEqual(inner_json_offences(path, "#include <nlohmann/json.hpp>\nnlohmann::json value;\n"), [])


class Purity(Planted):
    def test_pure_rooms_look_at_nothing(self):
        files = product_files()
        self.assertGreater(len([f for f, _ in files if PURE.fullmatch(f)]), 50)
        self.assertEqual([o for f, text in files for o in purity_offences(f, text)], [])

    def test_planted_offenders(self):
        self.assert_each_offends(purity_offences, [
            ("harness/plan/x.cpp", '#include "vmctl/api/host.h"'),
            ("harness/plan/x.cpp", "#include <fstream>"),
            ("harness/evidence/x.h", "  #  include <unistd.h>"),
            ("harness/evidence/x.h", "#include <sys/stat.h>"),
            ("harness/rules/x.cpp", "#include <boost/asio/awaitable.hpp>"),
            ("harness/rules/x.cpp", '#include "common/system/time.h"'),
            ("harness/rules/x.cpp", '#include "harness/job/tenant_job.h"'),
            ("harness/bisect/search.cpp", '#include "results/store/store.h"'),
            ("results/statistics/x.cpp", "#include <filesystem>"),
            ("results/comparison/compare.h", '#include "results/store/store.h"'),
            ("results/comparison/compare.cpp", '#include "results/reading/reading.h"'),
            ("results/changes/changes.h", '#include "results/store/store.h"'),
            ("harness/evidence/x.cpp", 'const auto text = read_file("/proc/self/status");'),
            ("harness/plan/x.cpp", "std::mt19937_64 random(std::random_device{}());"),
        ])
        self.assert_none_offends(purity_offences, [
            ("harness/plan/x.cpp", "#include <random>"),
            ("harness/plan/x.cpp", '#include "vmctl/api/inventory.h"'),
            ("harness/rules/x.cpp", "// not read_file()"),
            ("harness/trial/x.cpp", '#include "vmctl/api/host.h"'),
        ])


class Length(unittest.TestCase):
    def test_files_are_short(self):
        files = [(f, (SOURCE / f).read_text(encoding="utf-8")) for f in source_files()]
        self.assertEqual([o for f, text in files for o in length_offences(f, text)], [])

    def test_planted_offender(self):
        self.assertEqual(length_offences("a.cpp", "\n" * 1001), ["a.cpp: 1001 lines, more than 1000"])
        self.assertEqual(length_offences("a.cpp", "\n" * 1000), [])


class UnityBuilds(unittest.TestCase):
    def test_a_name_means_one_function(self):
        self.assertEqual(overload_offences(product_files()), [])

    def test_planted_offenders(self):
        def text(parameters):
            return f"namespace {{\n\nstd::string plain({parameters}) {{\n  return {{}};\n}}\n\n}}  // namespace\n"
        one = ("harness/a.cpp", text("const std::string& address, int n"))
        for path, other, offences in [
            ("harness/b.cpp", "std::string_view fact, int n", 1),
            ("harness/b.cpp", "const fs::path&, int", 1),
            ("harness/b.cpp", "const Tenant& tenant, int n", 0),
            ("harness/b.cpp", "std::string_view fact", 0),
            ("results/b.cpp", "std::string_view fact, int n", 0),
        ]:
            with self.subTest(path=path, other=other):
                self.assertEqual(len(overload_offences([one, (path, text(other))])), offences)


class Nodes(Planted):
    def test_the_host_makes_them(self):
        self.assertEqual([o for f, text in product_files() for o in node_offences(f, text)], [])

    def test_planted_offenders(self):
        self.assert_each_offends(node_offences, [
            ("harness/trial/x.cpp", '#include "vmctl/hypervisor/hypervisor.h"'),
            ("harness/cli/x.cpp", '  #include "vmctl/host/run_state.h"'),
            ("harness/cli/x.cpp", "#include <vmctl/host/run_state.h>"),
            ("harness/trial/x.cpp", "if (nodes.is_vm()) {"),
        ])
        self.assert_none_offends(node_offences, [
            ("harness/trial/x.cpp", '#include "vmctl/api/host.h"'),
            ("harness/plan/x.cpp", "bool is_vm(const std::string& arm);"),
            ("vmctl/host/x.cpp", '#include "vmctl/hypervisor/hypervisor.h"'),
        ])


class Rooms(unittest.TestCase):
    def setUp(self):
        self.paths = [f for f in source_files() if folder_of(f) in MAY_KNOW]

    def test_no_arrow_runs_up(self):
        self.assertEqual([o for f, text in product_files() for o in room_offences(f, text)], [])

    def test_what_a_file_declares_is_where_its_name_says(self):
        self.assertEqual(header_offences(self.paths), [])

    def test_planted_offenders(self):
        for path, header, words in [
            ("vmctl/journal/leases.cpp", "vmctl/doctor/findings/device_host.h", ":2: doctor/findings lies above journal"),
            ("vmctl/doctor/checks/x.cpp", "vmctl/doctor/doctor.h", ":2: doctor lies above doctor/checks"),
            ("vmctl/resources/kind/x.h", "vmctl/resources/cleanup.h", ":2: resources lies above resources/kind"),
            ("harness/evidence/x.h", "harness/job/tenant_job.h", ":2: job lies above evidence"),
            ("harness/agent/x.h", "harness/agent/client/agent_client.h", ":2: agent/client lies above agent"),
            ("workloads/resnet50/cuda/plan/x.cpp", "workloads/resnet50/cuda/run/gpu.h", ":2: resnet50/cuda/run lies above resnet50/cuda/plan"),
            ("common/error.cpp", "common/text/text.h", ":2: text lies above common"),
            ("vmctl/attic/x.h", "vmctl/process/paths.h", ": vmctl has no room 'attic'"),
            ("vmctl/x.h", "vmctl/process/paths.h", ": vmctl has no room ''"),
        ]:
            for text in (f'#include "{header}"\n', f"#include <{header}>\n", f'  #  include "{header}"\n'):
                with self.subTest(path=path, text=text):
                    self.assertEqual(room_offences(path, "#pragma once\n" + text), [path + words])
        self.assertEqual(room_offences("vmctl/doctor/x.cpp", '#include "vmctl/doctor/x.h"\n#include "vmctl/journal/leases.h"\n'), [])
        well = ["vmctl/a/store.h", "vmctl/a/store.cpp", "vmctl/a/store_read.cpp", "vmctl/a/disk_store.cpp", "vmctl/a/x_main.cpp"]
        self.assertEqual(header_offences(well), [])
        self.assertEqual(header_offences([*well, "vmctl/a/leftovers.cpp"]), ["vmctl/a/leftovers.cpp: declared in no header of its name"])
        self.assertEqual(len(header_offences(["vmctl/b/store.h", "vmctl/a/store.cpp"])), 1)


@unittest.skipUnless(BUILD, "no build folder given")
class Links(unittest.TestCase):
    def test_arrows(self):
        folders, graph = read_links((BUILD / "links.txt").read_text(encoding="utf-8"))
        self.assertIn("virtrain_host_api", graph["virtrain"])
        self.assertIn("PkgConfig::LIBVIRT", graph["virtrain-host"])
        self.assertIn("virtrain_common", graph["virtrain"])
        self.assertIn("virtrain_common", graph["virtrain-agent"])
        self.assertEqual(set(folders.values()), set(MAY_KNOW))
        self.assertEqual(link_offences(folders, graph), [])

    def test_planted_offenders(self):
        folders, graph = read_links(
            "vmctl virtrain_vmctl virtrain_results\n"
            "results virtrain_results SQLiteCpp\n"
            "harness virtrain virtrain_harness;cpu\n"
            "harness virtrain-agent virtrain_vmctl\n"
            "workloads cpu $<LINK_ONLY:/usr/lib/x86_64-linux-gnu/libdnnl.so>;MPI::MPI_CXX\n"
        )
        self.assertEqual(
            link_offences(folders, graph),
            [
                "target virtrain may not link /usr/lib/x86_64-linux-gnu/libdnnl.so",
                "target virtrain may not link MPI::MPI_CXX",
                "target virtrain (harness) may not link cpu (workloads)",
                "target virtrain-agent may not link SQLiteCpp",
                "target virtrain_vmctl (vmctl) may not link virtrain_results (results)",
            ],
        )


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
