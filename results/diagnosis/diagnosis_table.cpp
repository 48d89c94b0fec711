#include "results/diagnosis/diagnosis_table.h"

#include <fmt/format.h>

#include <array>

#include "common/text/printable.h"
#include "common/text/wrap.h"
#include "results/tables/render.h"

namespace virtrain::results {
namespace {

using Found = DiagnosisFinding;
constexpr ColumnOf<Found> finding_columns[] = {
    {"id", "id", [](const Found& of) { return cell(of.id); }},
    {"finding", "finding", [](const Found& of) { return cell(of.says); }, false, false, false, false, true},
    {"evidence", "seen", [](const Found& of) { return cell(of.evidence); }, false, false, false, false, true},
    {"cost", "costs", [](const Found& of) { return cell(of.cost); }, false, true, false, false, true},
    {"loss", "loss", [](const Found& of) { return cell(of.loss, 3); }, false, true},
    {"grade", "grade", [](const Found& of) { return cell(std::string(to_string(of.grade))); }},
    {"fix", "do", [](const Found& of) { return cell(of.fix); }, false, false, false, false, true},
    {"check", "check", [](const Found& of) { return cell(of.check); }, false, false, false, false, true}};

std::string loss_words(const MeasuredLoss& loss) {
  const auto side = figure_with_unit(loss.side, loss.unit);
  const auto baseline = figure_with_unit(loss.baseline, loss.unit);
  const double percent = (1 - loss.loss()) * 100;
  return loss.unit == "s"
             ? fmt::format("{}: {}, the baseline has {}: {:.1f} % of its rate", loss.name, side, baseline,
                           percent)
             : fmt::format("{}: {}, {:.1f} % of the baseline's {}", loss.name, side, percent, baseline);
}

std::string unknown_words(const std::string& unknown) {
  return "cannot tell " + printable(unknown);
}

std::string scenario_words(const std::string& scenario) {
  return fmt::format(
      "To see with intervals what a change helps: virtrain run {} --label before, then --label after, and "
      "virtrain compare --baseline label:before --candidate label:after",
      scenario);
}

std::string contradiction_words(const std::string& contradiction) {
  return "contradiction: " + printable(contradiction);
}

}  // namespace

Table diagnosis_table(const Diagnosis& diagnosis) {
  auto table = table_of(finding_columns, diagnosis.findings);
  for (const auto& loss : diagnosis.losses) { table.notes.push_back(loss_words(loss)); }
  for (const auto& one : diagnosis.contradictions) { table.notes.push_back(contradiction_words(one)); }
  for (const auto& one : diagnosis.unknown) { table.notes.push_back(unknown_words(one)); }
  if (!diagnosis.scenario.empty()) { table.notes.push_back(scenario_words(diagnosis.scenario)); }
  return table;
}

std::string to_text(const Diagnosis& diagnosis, std::size_t columns) {
  std::string text;
  const auto add = [&](const std::string& line) { text += hang(line, columns) + "\n"; };
  for (const auto& loss : diagnosis.losses) { add(loss_words(loss)); }
  if (!diagnosis.losses.empty()) {
    add("One run of each side carries no verdict; virtrain compare gives one for three and more.");
  }
  if (diagnosis.findings.empty()) { add("Nothing that is known here is wrong."); }
  for (const auto& one : diagnosis.contradictions) { add(contradiction_words(one)); }
  std::size_t number = 0;
  for (const auto& one : diagnosis.findings) {
    text += "\n";
    add(fmt::format("{}. {}: {}", ++number, one.id, printable(one.says)));
    for (const auto& [head, words] :
         std::array{std::pair("seen", &one.evidence), std::pair("costs", &one.cost),
                    std::pair("do", &one.fix), std::pair("check", &one.check)}) {
      if (words->empty()) { continue; }
      constexpr std::size_t indent = 10;
      text += fmt::format("   {:<6} {}\n", head, hang(printable(*words), columns, indent));
    }
  }
  if (!diagnosis.unknown.empty()) { text += "\n"; }
  for (const auto& one : diagnosis.unknown) { add(unknown_words(one)); }
  if (!diagnosis.scenario.empty()) {
    text += "\n" + hang(scenario_words(diagnosis.scenario), columns) + "\n";
  }
  return text;
}

}  // namespace virtrain::results
