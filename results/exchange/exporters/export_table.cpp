#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "common/error.h"
#include "common/unique_fd.h"
#include "results/exchange/exporters/exporters.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {

std::vector<std::string> experiments_to_export(const Store& store, const Selection& selection) {
  std::vector<std::string> ids;
  if (selection.all) {
    for (const auto& summary : store.list_experiments()) { ids.push_back(summary.experiment.id); }
    if (!ids.empty()) { return ids; }
  }
  const bool by_name_only =
      !selection.experiments.empty() && selection.scenario.empty() && selection.label.empty();
  if (!by_name_only) { return store.select(selection); }
  for (const auto& summary : store.list_experiments()) {
    const auto& wanted = selection.experiments;
    const auto& id = summary.experiment.id;
    if (std::find(wanted.begin(), wanted.end(), id) != wanted.end()) { ids.push_back(id); }
  }
  return ids.size() == selection.experiments.size() ? ids : store.select(selection);
}

Table view_table(const Store& store, const std::vector<std::string>& experiments, const std::string& view) {
  const auto rows = store.view(view, experiments);
  Table table;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const auto is_number = [&](const auto& row) { return row[i].is_number(); };
    table.columns.push_back(
        {rows.columns[i], rows.columns[i], std::any_of(rows.rows.begin(), rows.rows.end(), is_number)});
  }
  for (const auto& row : rows.rows) {
    auto& cells = table.rows.emplace_back();
    for (const auto& value : row) {
      const auto text = value.is_string() ? value.get<std::string>()
                        : value.is_null() ? ""
                                          : canonical_json(value);
      cells.push_back({value, text});
    }
  }
  return table;
}

void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
    // A device or a pipe (/dev/stdout) is written to, never replaced.
    std::ofstream out(file, std::ios::binary);
    if (out) { write(out); }
    out.close();
    if (!out) { throw Error("write " + file.string(), ErrorCode::io, "it takes no file's bytes"); }
    return;
  }
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  // Hidden and without the collector's ".prom" at its end: nobody reads half of it.
  std::string name = folder / ("." + file.filename().string() + ".XXXXXX");
  const UniqueFd temporary(::mkostemp(name.data(), O_CLOEXEC));
  if (!temporary) { throw errno_error("write " + file.string(), errno); }
  try {
    // By its descriptor: in a folder of somebody else's the name may be another file's by now.
    std::ofstream out(fmt::format("/proc/self/fd/{}", temporary.get()), std::ios::binary);
    write(out);
    out.close();
    if (!out) { throw Error("write " + file.string(), ErrorCode::io, "the file could not be written whole"); }
    const bool done = ::fchmod(temporary.get(), 0644) == 0 && ::fsync(temporary.get()) == 0 &&
                      ::rename(name.c_str(), file.c_str()) == 0;
    if (!done) { throw errno_error("write " + file.string(), errno); }
  } catch (...) {
    ::unlink(name.c_str());
    throw;
  }
}

}  // namespace virtrain::results
