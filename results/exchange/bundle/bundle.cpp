#include "results/exchange/bundle/bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/json.h"
#include "common/text/sha256.h"
#include "exchange_embedded.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/files/work_folder.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

/// One file of the bundle: its bytes, or the file that has them.
struct Member {
  std::string content;
  fs::path source = {};
  std::string what;
  std::string sha256 = {};
  std::uint64_t size_bytes = 0;
};

ArchiveWriter::Compression compression_of(const fs::path& file) {
  const auto name = file.filename().string();
  if (name.ends_with(".tar.gz")) { return ArchiveWriter::Compression::gzip; }
  if (name.ends_with(".tar.zst")) { return ArchiveWriter::Compression::zstd; }
  throw Error("export " + file.string(), ErrorCode::usage, "a bundle's name must end in .tar.gz or .tar.zst");
}

/// A name that is one part of a path and nothing else, whatever a record says; other names become other
/// parts.
std::string path_part(const std::string& name) {
  constexpr std::size_t longest = 80, digest = 12;
  std::string safe = name;
  for (char& c : safe) {
    const bool harmless = std::isalnum(static_cast<unsigned char>(c)) ||
                          std::string_view("._-").find(c) != std::string_view::npos;
    if (!harmless) { c = '_'; }
  }
  if (safe.find_first_not_of('.') == std::string::npos) { safe = "_" + safe; }
  if (safe == name && safe.size() <= longest) { return safe; }
  return safe.substr(0, longest) + "-" + sha256(name).substr(0, digest);
}

/// Whether it is a file, no link, whose real place is below the folder.
bool is_below(const fs::path& file, const fs::path& folder) {
  std::error_code failure;
  const auto real = fs::canonical(file, failure);
  if (failure || fs::is_symlink(file, failure) || !fs::is_regular_file(real, failure)) { return false; }
  const auto relative = real.lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

class Bundle {
 public:
  Bundle(const Store& store, const fs::path& logs) : store_(store), logs_(logs) {}

  void add(std::string name, std::string content, std::string what) {
    members_[std::move(name)] = {std::move(content), {}, std::move(what)};
  }
  void add_source(std::string name, fs::path source, std::string what) {
    members_[std::move(name)] = {"", std::move(source), std::move(what)};
  }

  void add_experiment(const std::string& id) {
    const auto experiment = experiment_to_export(store_, id);
    const auto folder = experiment_folder(id);
    if (!experiment.scenario_text.empty()) {
      add(folder + "scenario.yaml", experiment.scenario_text, "scenario");
    }
    if (!experiment.plan.is_null()) {
      add(folder + "plan.json", dump_json(experiment.plan, 2) + "\n", "plan");
    }
    std::int64_t ordinal = 0;
    for (const auto& trial : store_.trials(id)) {
      ++ordinal;
      for (const auto& tenant : store_.tenants(trial.id)) {
        for (const auto& node : store_.nodes(tenant.id)) { add_node(id, ordinal, node); }
      }
    }
  }

  void write(int descriptor, const fs::path& file, ArchiveWriter::Compression compression) {
    hash_members();
    ArchiveWriter archive(descriptor, file, compression);
    for (const auto& [name, member] : members_) {
      const auto path = "virtrain-evidence/" + name;
      if (member.source.empty()) {
        archive.add(path, member.content);
      } else {
        archive.add_file(path, member.source, member.size_bytes);
      }
    }
    archive.close();
  }

  BundleReport report() const {
    BundleReport report{std::ssize(members_), {}};
    for (const auto& one : missing_) { report.missing.push_back(one.at("path")); }
    return report;
  }

 private:
  static std::string experiment_folder(const std::string& id) { return "experiments/" + path_part(id) + "/"; }

  void add_node(const std::string& experiment, std::int64_t trial, const Node& node) {
    const auto folder = experiment_folder(experiment);
    const auto& name = node.domain_name.empty() ? node.name : node.domain_name;
    if (!node.domain_xml.empty()) {
      add(folder + "domains/" + path_part(name) + ".xml", node.domain_xml,
          fmt::format("domain XML, trial {}", trial));
    }
    if (node.console_log.empty()) { return; }
    const fs::path log = node.console_log;
    const auto what =
        fmt::format("{} of {}, trial {}", node.kind == "vm" ? "console" : "agent's log", name, trial);
    const bool is_ours = is_below(log, logs_ / path_part(experiment));
    Member member{"", log, what};
    if (is_ours && measure(member)) {
      members_[folder + "logs/" + path_part(log.filename())] = std::move(member);
      return;
    }
    std::error_code failure;
    const char* reason = is_ours ? "it cannot be read"
                         : fs::exists(log, failure)
                             ? "it is not in the experiment's log folder of this host and user"
                             : "it is not there any more";
    missing_.push_back({{"path", node.console_log}, {"what", what}, {"reason", reason}});
  }

  void hash_members() {
    auto files = nlohmann::json::array();
    std::string sums;
    for (auto& [name, member] : members_) {
      if (member.sha256.empty() && !measure(member)) {
        throw Error("read " + member.source.string(), ErrorCode::io, "reading failed before its end");
      }
      files.push_back(
          {{"path", name}, {"what", member.what}, {"bytes", member.size_bytes}, {"sha256", member.sha256}});
    }
    add("manifest.json", dump_json({{"files", files}, {"missing", missing_}}, 2) + "\n", "list of files");
    measure(members_.at("manifest.json"));
    for (const auto& [name, member] : members_) { sums += member.sha256 + "  " + name + "\n"; }
    add("SHA256SUMS", sums, "hashes");
  }

  /// Size and hash, of a file those of one and the same moment. False if the file cannot be read.
  static bool measure(Member& member) {
    if (member.source.empty()) {
      member.size_bytes = member.content.size();
      member.sha256 = sha256(member.content);
      return true;
    }
    auto in = open_stream(member.source);
    Sha256 hash;
    std::vector<char> piece(std::size_t{1} << 20);
    while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
      hash.update({piece.data(), static_cast<std::size_t>(in.gcount())});
      member.size_bytes += static_cast<std::uint64_t>(in.gcount());
    }
    member.sha256 = hash.finish();
    return in.is_open() && !in.bad();
  }

  const Store& store_;
  const fs::path& logs_;
  std::map<std::string, Member> members_;
  nlohmann::json missing_ = nlohmann::json::array();
};

BundleReport write_bundle_by(const WorkFolder& work, const Store& store,
                             const std::vector<std::string>& experiments, const fs::path& file,
                             ArchiveWriter::Compression compression, const fs::path& logs) {
  const auto records = work.path() / "exchange.jsonl";
  const auto rows = work.path() / "results.db";
  write_whole(records, [&](std::ostream& out) { export_jsonl(store, {.experiments = experiments}, out); });
  {
    auto in = open_stream(records);
    Store copy(rows);
    copy_records(copy, in, "exchange.jsonl");
  }
  Bundle bundle(store, logs);
  bundle.add("README.txt", std::string(exchange::bundle_readme_txt), "how to read and verify this");
  bundle.add_source("exchange.jsonl", records, "all rows as exchange records");
  bundle.add_source("results.db", rows, "all rows as an SQLite database");
  for (const auto& id : experiments) { bundle.add_experiment(id); }
  replace_file(file, [&](int descriptor) { bundle.write(descriptor, file, compression); });
  return bundle.report();
}

}  // namespace

BundleReport write_bundle(const Store& store, const std::vector<std::string>& experiments,
                          const fs::path& file, const fs::path& logs) {
  const auto compression = compression_of(file);
  const WorkFolder work(file);
  try {
    return write_bundle_by(work, store, experiments, file, compression, logs);
  } catch (const Error& error) {
    // The work folder's name in /proc tells nobody where it is.
    const auto named = [&](std::string words) {
      const auto open = work.path().string();
      const auto at = words.find(open);
      return at == std::string::npos ? words : words.replace(at, open.size(), work.named_path().string());
    };
    throw Error(named(error.operation()), error.code(), named(error.message()));
  }
}

ArchiveWriter::ArchiveWriter(int descriptor, const std::filesystem::path& file, Compression compression)
    : file_(file), archive_(archive_write_new(), archive_write_free) {
  // ustar, with an extended header only where a name is too long for it.
  check(archive_write_set_format_pax_restricted(archive_.get()));
  if (compression == Compression::gzip) {
    check(archive_write_add_filter_gzip(archive_.get()));
    check(archive_write_set_filter_option(archive_.get(), "gzip", "timestamp", nullptr));
  } else {
    check(archive_write_add_filter_zstd(archive_.get()));
  }
  check(archive_write_open_fd(archive_.get(), descriptor));
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::begin_entry(const std::string& name, std::uint64_t size_bytes) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size_bytes));
  check(archive_write_header(archive_.get(), entry.get()));
}

void ArchiveWriter::write(std::string_view bytes) {
  if (archive_write_data(archive_.get(), bytes.data(), bytes.size()) < 0) { check(ARCHIVE_FATAL); }
}

void ArchiveWriter::add(const std::string& name, std::string_view content) {
  begin_entry(name, content.size());
  write(content);
}

void ArchiveWriter::add_file(const std::string& name, const std::filesystem::path& source,
                             std::uint64_t size_bytes) {
  begin_entry(name, size_bytes);
  auto in = open_stream(source);
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::uint64_t left = size_bytes; left > 0;) {
    in.read(piece.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(left, piece.size())));
    if (in.gcount() <= 0) {
      throw Error("write " + file_.string(), ErrorCode::io,
                  source.string() + " became shorter while it was read");
    }
    write({piece.data(), static_cast<std::size_t>(in.gcount())});
    left -= static_cast<std::uint64_t>(in.gcount());
  }
}

void ArchiveWriter::close() {
  check(archive_write_close(archive_.get()));
}

void ArchiveWriter::check(int result) const {
  if (result == ARCHIVE_OK) { return; }
  const char* words = archive_error_string(archive_.get());
  throw Error("write " + file_.string(), ErrorCode::io, words != nullptr ? words : "libarchive failed");
}

}  // namespace virtrain::results
