# Programs of the project on emulated cards: each release and each kind of card, in the order of some seed.

# strict_test(name card release [ENVIRONMENT settings...] [LIBRARY name] COMMAND words...): a program on one emulated device,
# with a library of lib/emulated_hip/<name>.
function(strict_test name card release)
  cmake_parse_arguments(ARG "" "LIBRARY" "ENVIRONMENT;COMMAND" ${ARGN})
  add_test(NAME strict_${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(strict_${name} PROPERTIES LABELS strict TIMEOUT 300
    ENVIRONMENT "GABBRO_BUILD_DIR=${CMAKE_BINARY_DIR};GABBRO_DEVICE=rocm:0;GABBRO_TUNING_FILE=;EMULATED_GPUS=${card};EMULATED_GPU_STRICT=${release};${ARG_ENVIRONMENT}"
    ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${folder}/${ARG_LIBRARY};LD_LIBRARY_PATH=path_list_prepend:${folder}")
endfunction()

# All cards at once: the plugin takes each.
set(all_cards gfx906,gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1101,gfx1102,gfx1151,gfx1200,gfx1201)
foreach(release 6.4 7.2 7.14 10.0)
  strict_test(devices_${release} ${all_cards} ${release} COMMAND gabbro devices)
  # The largest first, and the integrated one after all others.
  set_tests_properties(strict_devices_${release} PROPERTIES
    PASS_REGULAR_EXPRESSION "rocm:3 .*gfx950, native.*rocm:2 .*gfx942, native.*rocm:10 .*gfx1201, native.*rocm:8 .*gfx1151, native")
endforeach()

# Ops with each wave size; blocks that take turns show what a block takes from another one too early.
set(ops "*/softmax*:*/rms_norm*:*/linear_q4_0_*:*/matmul_*:*/topk_*")
strict_test(ops_gfx1100 gfx1100 6.4 COMMAND conformance_test "--gtest_filter=${ops}")
strict_test(ops_gfx942 gfx942 7.2 ENVIRONMENT EMULATED_GPU_SEED=2 COMMAND conformance_test "--gtest_filter=${ops}")
strict_test(ops_in_turns gfx1201 7.14 ENVIRONMENT EMULATED_GPU_SEED=3 EMULATED_GPU_RESIDENT=4
  COMMAND conformance_test "--gtest_filter=*/attention_T_1_*:*/softmax_*:*/rms_norm*")

# Products of a vendor's library.
strict_test(products gfx942 7.2 LIBRARY hipblaslt COMMAND conformance_test "--gtest_filter=*/matmul_*")

# Streams, events and their order.
foreach(seed 1 2 3)
  strict_test(streams_seed_${seed} gfx1201 7.14 ENVIRONMENT EMULATED_GPU_SEED=${seed} COMMAND stream_test)
endforeach()

# Language models: batches, ranges that grow, graphs, steps that are queued while others run.
strict_test(llm_6.4 gfx1030 6.4 COMMAND llm_test --gtest_filter=RunnerTest.StepGreedy*)
strict_test(llm_7.2 gfx942 7.2 COMMAND llm_test --gtest_filter=RunnerTest.StepGreedy*)
strict_test(llm_7.14 gfx1201 7.14 ENVIRONMENT EMULATED_GPU_SEED=2 COMMAND llm_test --gtest_filter=RunnerTest.Greedy*)
strict_test(llm_10.0 gfx1151 10.0 ENVIRONMENT EMULATED_GPU_SEED=3 EMULATED_GPU_MEMORY=2G
  COMMAND llm_test --gtest_filter=RunnerTest.StepGreedy*)
