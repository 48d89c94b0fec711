#include "harness/cli/report_file.h"

#include <fmt/ostream.h>
#include <unistd.h>

#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "results/exchange/exporters/exporters.h"
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
  if (results::is_written_in_place(output)) { return; }
  const auto folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, unknown)) { refuse(fmt::format("there is no folder {}", folder.string())); }
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(fmt::format("{} cannot be written to", folder.string()));
  }
}

void make_site_folder(const std::filesystem::path& folder) {
  std::error_code failed, unknown;
  fs::create_directories(folder, failed);
  if (fs::is_directory(folder, unknown)) { return; }
  throw Error("write the site to " + printable(folder.string()), ErrorCode::usage,
              fs::exists(folder, unknown) ? "it is a file; a site needs a folder"
                                          : "cannot make the folder: " + failed.message());
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
    results::write_whole(output, [&](std::ostream& out) { out << written.html; });
  }
}

}  // namespace virtrain::harness
