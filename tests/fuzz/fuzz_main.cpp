// fuzz_main.cpp: what runs a LLVMFuzzerTestOneInput without clang's libFuzzer.
//   NAME [--seconds N] [--seed N] [--runs N] CORPUS...     files, and folders of them
// Replays the corpus, then changes it at random until the time (or the number of runs) is over. An input that
// ends the process, takes longer than ten seconds or more than two gigabytes is written to NAME.crash and
// named; the same file as the only argument shows it again.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr unsigned seconds_an_input = 10;
[[maybe_unused]] constexpr rlim_t most_memory = rlim_t{2} << 30;
constexpr std::size_t longest_input = std::size_t{1} << 20;

std::string current;  ///< what is being tried
std::string crash_file;

/// Its first bytes, for a machine whose files are gone afterwards; `printf '%b'` gives them back.
void show_input() {
  static std::array<char, std::size_t{4} * 4096> shown;
  std::size_t used = 0;
  for (const char byte : std::string_view(current).substr(0, shown.size() / 4)) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= ' ' && value <= '~' && byte != '\\') {
      shown[used++] = byte;
    } else {
      for (const char octal : {'\\', static_cast<char>('0' + value / 64),
                               static_cast<char>('0' + value / 8 % 8), static_cast<char>('0' + value % 8)}) {
        shown[used++] = octal;
      }
    }
  }
  [[maybe_unused]] auto said = ::write(STDERR_FILENO, shown.data(), used);
  said = ::write(STDERR_FILENO, "\n", 1);
}

/// Only what a signal handler may call.
void keep_input(int signal) {
  const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0) { [[maybe_unused]] const auto kept = ::write(file, current.data(), current.size()); }
  constexpr char words[] = "fuzz: this input ended the program, or took too long; it is kept in ";
  [[maybe_unused]] auto said = ::write(STDERR_FILENO, words, sizeof words - 1);
  said = ::write(STDERR_FILENO, crash_file.c_str(), crash_file.size());
  said = ::write(STDERR_FILENO, ":\n", 2);
  show_input();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// On a stack of their own: an input may have used up the usual one.
void watch_signals() {
  static std::array<char, 65536> stack;
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_handler = keep_input;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    ::sigaction(signal, &action, nullptr);
  }
}

void try_input(std::string input) {
  current = std::move(input);
  ::alarm(seconds_an_input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  ::alarm(0);
}

std::vector<std::string> read_corpus(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const auto& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
    } else {
      for (const auto& entry : fs::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) { files.push_back(entry.path()); }
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) { change(input); }
    if (input.size() > longest_input) { input.resize(longest_input); }
    return input;
  }

 private:
  std::size_t below(std::size_t limit) {
    return limit < 2 ? 0 : std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  std::string piece_of(const std::string& text) {
    return text.empty() ? text : text.substr(below(text.size()), 1 + below(64));
  }

  void change(std::string& input) {
    static const std::vector<std::string> tokens = {"",
                                                    "0",
                                                    "-1",
                                                    "1e308",
                                                    "1e-320",
                                                    "NaN",
                                                    "Infinity",
                                                    "9223372036854775807",
                                                    "18446744073709551616",
                                                    "4294967296",
                                                    "null",
                                                    "true",
                                                    "\"\"",
                                                    "[]",
                                                    "{}",
                                                    "[[",
                                                    "{\"",
                                                    "\"",
                                                    "'",
                                                    ",",
                                                    ":",
                                                    "\n",
                                                    "\r\n",
                                                    "\t",
                                                    std::string(1, '\0'),
                                                    "\x1b[2J",
                                                    "\xc2\x9b",
                                                    "\xe2\x80\xae",
                                                    "\xff",
                                                    "\xef\xbb\xbf",
                                                    "<script>",
                                                    "..",
                                                    "/",
                                                    "- ",
                                                    "&a ",
                                                    "*a",
                                                    "---\n",
                                                    "!!",
                                                    "|",
                                                    "2026-11-20T08:00:00Z"};
    const auto at = below(input.size() + 1);
    switch (below(9)) {
      case 0:
        if (at < input.size()) { input[at] = static_cast<char>(below(256)); }
        break;
      case 1:
        if (at < input.size()) { input[at] = static_cast<char>(input[at] ^ (1 << below(8))); }
        break;
      case 2:
        input.erase(at, 1 + below(32));
        break;
      case 3:
        input.insert(at, tokens[below(tokens.size())]);
        break;
      case 4:
        replace_word(input, at, tokens[below(tokens.size())]);
        break;
      case 5:
        input.insert(at, piece_of(input));
        break;
      case 6:
        input.insert(at, piece_of(corpus_[below(corpus_.size())]));
        break;
      case 7:
        input.resize(at);
        break;
      default:
        repeat(input, at);
    }
  }

  /// A number or word, from here to where it ends.
  static void replace_word(std::string& input, std::size_t at, const std::string& token) {
    const auto end = std::min(input.find_first_of(" \t\r\n,:;\"'[]{}", at), input.size());
    input.replace(at, end - at, token);
  }
  void repeat(std::string& input, std::size_t at) {
    const std::string piece = input.substr(at, 1 + below(16));
    std::string many;
    const std::size_t longest = std::size_t{1} << below(17);
    while (!piece.empty() && many.size() < longest) { many += piece; }
    input.insert(at, many);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint64_t seed = 1, runs = UINT64_MAX;
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : "0"; };
    if (word == "--seconds") {
      seconds = std::strtod(value(), nullptr);
    } else if (word == "--seed") {
      seed = std::strtoull(value(), nullptr, 10);
    } else if (word == "--runs") {
      runs = std::strtoull(value(), nullptr, 10);
    } else {
      paths.emplace_back(word);
    }
  }
  crash_file = fs::absolute(fs::path(argv[0]).filename()).string() + ".crash";
#if !defined(__SANITIZE_ADDRESS__)  // which sets terabytes of addresses aside
  const rlimit memory{most_memory, most_memory};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  watch_signals();

  const auto corpus = read_corpus(paths);
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: there is no corpus\n");
    return 2;
  }
  for (const auto& input : corpus) { try_input(input); }
  Mutator mutator(corpus, seed);
  const auto started = std::chrono::steady_clock::now();
  const auto end = started + std::chrono::duration<double>(seconds);
  std::uint64_t done = 0;
  for (; done < runs && std::chrono::steady_clock::now() < end; ++done) { try_input(mutator.next()); }
  std::fprintf(stderr, "fuzz: %zu inputs of the corpus, %llu changed ones (seed %llu)\n", corpus.size(),
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(seed));
  return 0;
}
