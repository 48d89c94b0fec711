#include "results/exchange/import_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/files/checksums.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

/// Parts of "PAIR" or "PAIR.TENANT", a file's name without its extensions ".log" or ".log.gz".
struct FileStem {
  std::optional<std::int64_t> pair, tenant;
};

FileStem read_stem(const fs::path& file) {
  const bool is_packed_name = file.extension() == ".gz" || file.extension() == ".zst";
  const auto parts = split((is_packed_name ? file.stem() : file).stem().string(), '.');
  FileStem stem{parse_integer(parts[0]), std::nullopt};
  const auto tenant = stem.pair && parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
  constexpr std::int64_t most_tenants = 1'000'000;
  if (tenant && *tenant >= 0 && *tenant < most_tenants) { stem.tenant = tenant; }
  return stem;
}

/// ARM/CASE/PAIR.log below the folder, where CASE may be several folders: what it says and the user did not.
ImportSettings settings_by_place(ImportSettings settings, const fs::path& relative, const fs::path& folder) {
  const fs::path name = fs::absolute(folder).lexically_normal();
  if (settings.experiment.empty()) {
    settings.experiment = (name.has_filename() ? name : name.parent_path()).filename();
  }
  const std::vector<fs::path> parts(relative.begin(), relative.end());
  if (parts.size() >= 2 && settings.arm.empty()) { settings.arm = parts.front(); }
  if (parts.size() >= 3 && settings.case_name.empty()) {
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      settings.case_name += (i > 1 ? "/" : "") + parts[i].string();
    }
  }
  if (!settings.pair) { settings.pair = read_stem(relative).pair; }
  // A case of several folders ends in the number of nodes: ARM/weak/4/PAIR.log.
  if (!settings.nodes && parts.size() >= 4) {
    const auto nodes = parse_integer(parts[parts.size() - 2].string());
    if (nodes && *nodes >= 1) { settings.nodes = nodes; }
  }
  return settings;
}

/// Every file below the folder, sorted.
std::vector<fs::path> files_below(const fs::path& folder) {
  constexpr std::size_t most_files = 100'000;
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code leads_nowhere;  // a link to itself, say, is no file
    if (entry->is_regular_file(leads_nowhere)) { files.push_back(entry->path()); }
    if (files.size() > most_files) {
      throw Error(folder.string(), ErrorCode::bad_input,
                  fmt::format("there are more than {} files in this folder", most_files));
    }
  }
  if (failure) {
    throw Error(folder.string(), ErrorCode::bad_input, "it cannot be read: " + failure.message());
  }
  std::ranges::sort(files);
  return files;
}

/// Every file below the folder, sorted, tenants of one trial together; of an unpacked bundle its records.
std::vector<ImportUnit> units_of_folder(const fs::path& folder, const ImportSettings& settings) {
  if (is_unpacked_bundle(folder)) {
    verify_unpacked_bundle(folder);
    return {{{{folder / records_name}}, settings, false}};
  }
  std::vector<ImportUnit> units;
  std::map<fs::path, std::size_t> by_trial;
  for (const auto& file : files_below(folder)) {
    const auto relative = file.lexically_relative(folder);
    const auto stem = read_stem(file);
    const UnitFile one{file, stem.tenant.value_or(0)};
    if (stem.tenant) {
      const auto trial = file.parent_path() / std::to_string(*stem.pair);
      const auto [found, fresh] = by_trial.try_emplace(trial, units.size());
      if (!fresh) {
        units[found->second].files.push_back(one);
        continue;
      }
    }
    units.push_back({{one}, settings_by_place(settings, relative, folder), true});
  }
  const auto by_tenant = [](const UnitFile& a, const UnitFile& b) { return a.tenant_index < b.tenant_index; };
  for (auto& unit : units) { std::ranges::stable_sort(unit.files, by_tenant); }
  return units;
}

}  // namespace

std::vector<ImportUnit> units_of(const std::string& path, const ImportSettings& settings) {
  std::error_code failure;
  if (path == "-" || !fs::is_directory(path, failure)) { return {{{{path}}, settings, false}}; }
  auto found = units_of_folder(path, settings);
  if (found.empty()) { throw Error(path, ErrorCode::bad_input, "there is no file in this folder"); }
  return found;
}

}  // namespace virtrain::results
