#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace virtrain::harness {

/// `--help` in sentences and in 80 columns; CLI11's own has its terms ("Excludes:", "{false}") and long
/// lines.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_description(const CLI::App* app) const override;
  std::string make_group(std::string head, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace virtrain::harness
