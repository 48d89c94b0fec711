#include "results/exchange/tool_output.h"

#include <sstream>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/readers.h"
#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/record_importer.h"
#include "results/store/store.h"

namespace virtrain::results {

bool is_nccl_row(std::string_view line) {
  const auto words = words_of(line);
  return words.size() > 2 && parse_integer(words[0]) && parse_integer(words[1]);
}

std::vector<Probe> read_nccl_output(const std::string& text, const std::string& program) {
  constexpr const char* id = "job";
  Store store(":memory:");
  std::istringstream in(text);
  LineReader lines(in, "its output");
  ImportSettings settings;
  settings.format = FileFormat::nccl_tests;
  settings.experiment = id;
  settings.arm = id;
  settings.collective = collective_in_name(program);
  RecordImporter importer(store, true);
  read_nccl_tests(lines, settings, importer);
  return store.probes(id);
}

}  // namespace virtrain::results
