#include "results/exchange/exporters/prometheus_page.h"

#include <fmt/format.h>

#include <ostream>

#include "common/text/printable.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

/// In a label's value a backslash, a quote and a line end are escaped.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') { out += '\\'; }
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

/// Labels with an empty value are as good as absent, and are left out.
std::string text_of(const PrometheusLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!value.empty()) {
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(value));
    }
  }
  return text.empty() ? "" : text + "}";
}

}  // namespace

void PrometheusPage::add(const std::string& metric, const char* type, const char* help,
                         const PrometheusLabels& labels, double value) {
  auto& family = families_[metric];
  family.type = type;
  family.help = help;
  auto text = text_of(labels);
  // Unpaired trials without an order differ in nothing that a view says: count them.
  for (int nth = 2; !family.seen.insert(text).second; ++nth) {
    auto numbered = labels;
    numbered.emplace_back("nth", std::to_string(nth));
    text = text_of(numbered);
  }
  family.samples += metric + text + " " + shortest_number(value) + "\n";
}

void PrometheusPage::write(std::ostream& out) const {
  for (const auto& [metric, family] : families_) {
    out << "# HELP " << metric << ' ' << family.help << "\n# TYPE " << metric << ' ' << family.type << '\n'
        << family.samples;
  }
}

}  // namespace virtrain::results
