// The program's commands: one file each, and the list that main.cc declares them by.
#pragma once

#include "apps/cli/command_line.h"

namespace gabbro::cli {

// The first and only argument of the program as a worker process (src/engine/worker), which no user gives.
inline constexpr const char* kWorkerCommand = "--worker-process";

// Each adds its subcommand to `root`, with its options and its action.
void add_run(Command root);
void add_pull(Command root);
void add_list(Command root);
void add_remove(Command root);
void add_inspect(Command root);
void add_tokenize(Command root);
void add_template(Command root);
void add_embed(Command root);
void add_rerank(Command root);
void add_logits(Command root);
void add_perplexity(Command root);
void add_convert(Command root);
void add_imatrix(Command root);
void add_bench(Command root);
void add_bench_image(Command bench);  // below `bench`
void add_bench_io(Command bench);
void add_bench_ops(Command bench);
void add_bench_serve(Command bench);
void add_testgen(Command root);
void add_tune(Command root);
void add_fit(Command root);
void add_devices(Command root);
void add_doctor(Command root);
void add_serve(Command root);
void add_image(Command root);
void add_completion(Command root);
void add_man(Command root);
void add_report_part(Command root);  // hidden: one part of `doctor --report`

// In the order of help.
inline constexpr void (*kCommands[])(Command) = {
    add_run,    add_pull,   add_list,       add_remove,  add_inspect, add_tokenize,   add_template, add_embed,
    add_rerank, add_logits, add_perplexity, add_convert, add_imatrix, add_bench,      add_testgen,  add_tune,
    add_fit,    add_serve,  add_image,      add_devices, add_doctor,  add_completion, add_man,      add_report_part};

// Commands of the program that answers the question of ./quickstart before the others are built.
inline constexpr void (*kFirstCommands[])(Command) = {add_run, add_devices};

}  // namespace gabbro::cli
