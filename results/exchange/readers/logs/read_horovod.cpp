// The format is that of horovod/horovod, examples/*/*_synthetic_benchmark.py, which bytedance/byteps and
// others took over: the figures of a line "Iter #N" are of one device, the total is of all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/logs/mark_fall.h"
#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/readers/logs/step_lines.h"
#include "results/exchange/readers/rank_tag.h"

namespace virtrain::results {
namespace {

/// The text behind a label, "resnet50" of "Model: resnet50"; empty if the line has another one.
std::string_view behind(std::string_view line, std::string_view label) {
  return line.starts_with(label) ? trim(line.substr(label.size())) : std::string_view();
}

/// One run; a file may hold several, one behind the other.
class HorovodReader {
 public:
  HorovodReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) { read_line(trim(without_rank_tag(lines_.line()))); }
    if (!steps_.empty()) {
      lines_.refuse("the run ends without its line \"Total img/sec on N GPU(s): …\": it did not finish");
    }
    if (importer_.report().trials == 0) {
      refuse_disguised(lines_);
      lines_.refuse("there is no line \"Total img/sec on N GPU(s): …\"");
    }
    if (again_ > 0) {
      importer_.note(counted(again_, "more total", "more totals") +
                     " of the same run, as each rank prints it, left out: each is of the whole job");
    }
  }

 private:
  void read_line(std::string_view line) {
    if (const auto model = behind(line, "Model:"); !model.empty()) { figure_.environment["model"] = model; }
    if (const auto batch = behind(line, "Batch size:"); !batch.empty()) {
      figure_.batch_size = parse_integer(batch);
      if (!figure_.batch_size || *figure_.batch_size < 1) {
        lines_.refuse("the batch size is \"{}\", it must be a whole number above zero", excerpt(batch));
      }
    }
    // "Number of GPUs: 4"
    const auto said = behind(line, "Number of ");
    if (const auto colon = said.find("s: "); colon != said.npos && said.find(' ') == colon + 2) {
      said_devices_ = parse_integer(trim(said.substr(colon + 2)));
    }
    if (line.starts_with("Iter #")) { read_step(line); }
    if (line.starts_with("Img/sec per ")) { of_one_ = figure_of(line); }
    if (line.starts_with("Total img/sec on ")) { read_total(line); }
  }

  /// "Iter #0: 100.0 img/sec per GPU"
  void read_step(std::string_view line) {
    const auto said = step_line(LineFormat::horovod, line);
    if (!said) { lines_.refuse("the speed in \"{}\" is not a finite number above zero", excerpt(line)); }
    steps_.push_back({said->speed, lines_.number()});
  }

  /// 404.0 of "Total img/sec on 4 GPU(s): 404.0 +-7.8"
  double figure_of(std::string_view line) const {
    const auto words = words_of(line.substr(line.rfind(": ") + 1));
    const auto value = words.empty() ? std::nullopt : parse_number(words[0]);
    if (!value || *value <= 0) {
      lines_.refuse("the figure in \"{}\" is not a finite number above zero", excerpt(line));
    }
    if (!lines_.has_end() && line.find("+-") == line.npos) {
      lines_.refuse("the last line breaks off, and {} may be the start of a longer number; get a fresh copy",
                    *value);
    }
    return *value;
  }

  void read_total(std::string_view line) {
    constexpr std::string_view label = "Total img/sec on ";
    Scanner in(line.substr(label.size()));
    const auto devices = parse_integer(in.take_while(is_digit));
    constexpr std::int64_t most_devices = 1'000'000;
    if (!devices || *devices < 1 || *devices > most_devices) {
      lines_.refuse("the number of devices in \"{}\" is not a whole number above zero", excerpt(line));
    }
    const double total = figure_of(line);
    if (last_total_ && steps_.empty() && figure_.environment.empty()) {
      return leave_out_again(total, *devices);
    }
    last_total_ = total;
    last_devices_ = *devices;
    figure_.images_per_second = total;
    figure_.what = "the total";
    figure_.scope = Scope::trial;
    if (said_devices_ && *said_devices_ != *devices) {
      lines_.refuse(
          "the total is of {}, and a line \"Number of …\" above says {}: they do not belong together",
          counted(*devices, "device"), *said_devices_);
    }
    check_parts(*devices);
    // "GPU(s)", "/gpu:0(s)", and accelerators of other names: "HPU(s)", "XPU(s)".
    const bool on_gpus =
        lower(std::string(in.rest().substr(0, in.rest().find(':')))).find("cpu") == std::string::npos &&
        !in.rest().starts_with(" /cpu");
    auto settings = settings_;
    if (on_gpus) {
      figure_.gpus = *devices;
    } else {
      count_processors(*devices, settings);
    }
    figure_.environment["source"] = "horovod";
    auto record = trial_of(figure_, settings, lines_);
    mark_fall(record, steps_, lines_, importer_);
    importer_.add(record, lines_.position());
    figure_ = {};
    of_one_.reset();
    said_devices_.reset();
    steps_.clear();
  }

  /// Where each rank prints the total, one has no run of its own in front.
  void leave_out_again(double total, std::int64_t devices) {
    const auto [low, high] = std::minmax(total, *last_total_);
    if (devices != last_devices_ || high > 1.5 * low) {
      lines_.refuse(
          "totals of {} on {} and {} on {} devices, with no run between them: they cannot both be of the "
          "whole job",
          *last_total_, last_devices_, total, devices);
    }
    ++again_;
    of_one_.reset();
  }

  /// The total is that of one device, times their number; both are rounded.
  void check_parts(std::int64_t devices) const {
    if (!of_one_) { return; }
    const double expected = *of_one_ * static_cast<double>(devices);
    if (std::abs(expected - figure_.images_per_second) >
        0.06 * static_cast<double>(devices) + 0.001 * expected) {
      lines_.refuse("a total of {} on {}, and {} on one: they do not belong together",
                    figure_.images_per_second, counted(devices, "device"), *of_one_);
    }
  }

  /// Without GPUs each device is one process.
  void count_processors(std::int64_t processes, ImportSettings& settings) const {
    if (settings.ranks && *settings.ranks != processes) {
      lines_.refuse("the total is of {}, and --ranks says {}; leave --ranks out",
                    counted(processes, "process", "processes"), *settings.ranks);
    }
    if (settings.gpus_per_node.value_or(0) > 0) {
      lines_.refuse("the total is of CPUs, and --gpus-per-node says {}; leave it out",
                    *settings.gpus_per_node);
    }
    settings.ranks = processes;
    settings.gpus_per_node = 0;
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  TrainingFigure figure_;
  std::optional<double> of_one_;  ///< images a second of one device
  std::optional<std::int64_t> said_devices_;
  std::vector<StepSpeed> steps_;
  std::optional<double> last_total_;
  std::int64_t last_devices_ = 0, again_ = 0;
};

}  // namespace

void read_horovod(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  HorovodReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
