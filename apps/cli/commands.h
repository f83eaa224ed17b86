// The program's commands: one file each, one visible list (main.cc).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>

namespace gabbro::cli {

// What the chosen command does, after its options were read. Returns the exit code.
using Action = std::function<int()>;
using Actions = std::map<const CLI::App*, Action>;

// Each adds its subcommand with its options to `root`, and its action to `actions`.
void add_run(CLI::App& root, Actions& actions);
void add_inspect(CLI::App& root, Actions& actions);
void add_tokenize(CLI::App& root, Actions& actions);
void add_template(CLI::App& root, Actions& actions);
void add_logits(CLI::App& root, Actions& actions);
void add_perplexity(CLI::App& root, Actions& actions);
void add_bench(CLI::App& root, Actions& actions);
void add_tune(CLI::App& root, Actions& actions);
void add_fit(CLI::App& root, Actions& actions);
void add_devices(CLI::App& root, Actions& actions);
void add_doctor(CLI::App& root, Actions& actions);
void add_list(CLI::App& root, Actions& actions);
void add_completion(CLI::App& root, Actions& actions);
void add_man(CLI::App& root, Actions& actions);

}  // namespace gabbro::cli
