#include "harness/cli/report_file.h"

#include <fmt/format.h>

#include "common/log.h"
#include "common/text.h"
#include "results/store/store.h"

namespace virtrain::harness {

void write_report(const std::filesystem::path& database, results::ReportRequest request,
                  const std::filesystem::path& output) {
  request.compare.explain = true;
  const results::Store store(database, results::Store::Mode::open);
  const auto written = results::make_report(store, request);
  for (const auto& warning : written.warnings) log::warning(warning);
  if (output == "-")
    fmt::print("{}", written.html);
  else
    write_file_atomically(output, written.html);
}

}  // namespace virtrain::harness
