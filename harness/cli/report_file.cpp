#include "harness/cli/report_file.h"

#include <fmt/ostream.h>
#include <unistd.h>

#include <iostream>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/open_folder.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "results/store/store.h"

namespace virtrain::harness {
namespace fs = std::filesystem;

void require_report_place(const std::filesystem::path& output) {
  const auto refuse = [&](const std::string& why) {
    throw Error("write the report to " + output.string(), ErrorCode::usage, why);
  };
  std::error_code unknown;
  if (output == "-") { refuse("the run prints its table there; name a file"); }
  if (fs::is_directory(output, unknown)) { refuse("it is a folder; name a file in it"); }
  const auto folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, unknown)) { refuse(fmt::format("there is no folder {}", folder.string())); }
  if (is_written_in_place(output)) { return; }
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(fmt::format("{} cannot be written to", folder.string()));
  }
}

void make_site_folder(const std::filesystem::path& folder) {
  constexpr mode_t usual = 0777;
  const auto operation = "write the site to " + printable(folder.string());
  std::error_code unknown;
  if (fs::exists(folder, unknown) && !fs::is_directory(folder, unknown)) {
    throw Error(operation, ErrorCode::usage, "it is a file; a site needs a folder");
  }
  try {
    open_folder(folder, operation, usual);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) { throw; }
    throw Error(operation, ErrorCode::usage, "cannot make the folder: " + error.message());
  }
}

void write_report(const std::filesystem::path& database, results::ReportRequest request,
                  const std::filesystem::path& output) {
  request.compare.explain = true;
  const results::Store store(database, results::Store::Mode::open);
  const auto written = results::make_report(store, request);
  for (const auto& warning : written.warnings) { log::warning(warning); }
  if (output == "-") {
    fmt::print(std::cout, "{}", written.html);
  } else {
    write_whole(output, [&](std::ostream& out) { out << written.html; });
  }
}

}  // namespace virtrain::harness
