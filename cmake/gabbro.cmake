# Helpers of the build: compile options, and one function per kind of target.
include(CheckIPOSupported)
include(CheckCXXCompilerFlag)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# gabbro_plain_options: for what sanitizers and coverage are not about.
add_library(gabbro_plain_options INTERFACE)
target_include_directories(gabbro_plain_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
if(GABBRO_WARNINGS)
  target_compile_options(gabbro_plain_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
else()
  target_compile_options(gabbro_plain_options INTERFACE -w)
endif()
# g++ collects garbage less often: a twelfth of its time, for 250 MB more at most.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND memory GREATER 6000)
  target_compile_options(gabbro_plain_options INTERFACE --param=ggc-min-expand=200 --param=ggc-min-heapsize=400000)
endif()
add_library(gabbro_options INTERFACE)
target_link_libraries(gabbro_options INTERFACE gabbro_plain_options)
# clang++ before 19 has no `operator delete` with a size unless it is asked for.
target_compile_options(gabbro_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsized-deallocation>)
set(gabbro_test_seconds 900)  # that a test program may take
if(GABBRO_SANITIZE)
  target_compile_options(gabbro_options INTERFACE -fsanitize=${GABBRO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # A null pointer needs no sanitizer to be seen, and these two take as long to compile as all others together.
  target_compile_options(gabbro_options INTERFACE -fno-sanitize=null,vptr)
  # g++ 12 takes what the sanitizers insert for uses of uninitialized values.
  target_compile_options(gabbro_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(gabbro_options INTERFACE -fsanitize=${GABBRO_SANITIZE})
  set(gabbro_test_seconds 3600)
endif()
if(GABBRO_FUZZ)
  target_compile_options(gabbro_options INTERFACE -fsanitize=fuzzer-no-link)  # coverage feedback, in the libraries too
endif()
if(GABBRO_COVERAGE)
  target_compile_options(gabbro_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(gabbro_options INTERFACE --coverage)
endif()

# Unity builds (CMAKE_UNITY_BUILD, on in the presets) compile several sources at a time: most of the time goes to headers.
# These sources have a file-local name that another source of their target has too, and are compiled alone.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
set(gabbro_alone
  apps/cli/line_editor src/formats/quant/ src/models/encoder/families/ src/backend/survey.cc
  src/backend/discovery/memory_budget_test src/backend/ranking_test src/ops/conv.cc src/ops/layer_norm.cc src/ops/pool.cc src/ops/functions/rearrange.cc
  backends/gpu/memory/memory_test backends/gpu/sim/faults_test backends/gpu/tuning/autotune_test tests/conformance/op_cases tests/conformance/recurrence_test tests/conformance/window_cases
  tests/kernels/rows_test tests/kernels/sort_test tests/llm/session_test tests/llm/states_test tests/ops/op_values_test
  tests/train/training_test)
list(JOIN gabbro_alone "|" gabbro_alone)

# gabbro_compile_alone(sources...): takes the ones in gabbro_alone out of unity builds of targets of this folder.
function(gabbro_compile_alone)
  set(alone ${ARGN})
  list(TRANSFORM alone PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/$]")
  list(FILTER alone INCLUDE REGEX "${gabbro_alone}")
  if(alone)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Headers of nearly every source are compiled once where there is no ccache, which would miss after each such compilation.
if(CCACHE)
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(GABBRO_PRECOMPILE "Compile common headers once" ${precompile})

# gabbro_precompile(target headers...): compiles the common headers, and these, for a target.
function(gabbro_precompile target)
  if(GABBRO_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <functional> <map> <memory> <optional> <span> <string>
      <string_view> <unordered_map> <vector> ${CMAKE_SOURCE_DIR}/src/base/error.h ${ARGN})
  endif()
endfunction()

# gabbro_precompile_like(target other): the headers of `other`, a target with the same compile options.
function(gabbro_precompile_like target other)
  if(GABBRO_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

# gabbro_cold_headers: has the precompiled headers of targets that a release compiles with -O1. Its definitions are those
# that all of them have: g++ takes no headers that were compiled with a definition more.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cold_headers.cc CONTENT "// Its precompiled headers are what is used.\n")
add_library(gabbro_cold_headers OBJECT ${CMAKE_BINARY_DIR}/cold_headers.cc)
set_target_properties(gabbro_cold_headers PROPERTIES CXX_VISIBILITY_PRESET hidden)
target_compile_options(gabbro_cold_headers PRIVATE $<$<CONFIG:Release>:-O1>)

# gabbro_module(name [COLD] [COLD_FILES regex] [WITH other] [BATCH number] [PRECOMPILE headers...] DEPS targets...): the
# static library gabbro_<name> of src/<name>, and of src/<other>, and the test program <name>_test of the *_test.cc files
# next to its sources. BATCH sources are compiled at a time in unity builds. PRECOMPILE: headers of most of its sources,
# where many of them are compiled alone. COLD: its code takes no part in the time of an op, a token or the reading of weights
# and vocabularies, and a release compiles it with -O1, a third faster. COLD_FILES: so do the sources whose paths match.
function(gabbro_module name)
  cmake_parse_arguments(ARG "COLD" "WITH;BATCH;COLD_FILES" "PRECOMPILE;DEPS" ${ARGN})
  if(NOT ARG_BATCH)
    set(ARG_BATCH 16)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  if(ARG_WITH)
    file(GLOB_RECURSE others CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${ARG_WITH}/*.cc)
    list(APPEND sources ${others})
  endif()
  list(FILTER sources EXCLUDE REGEX "/cases/")  # of tests: gabbro_op_cases
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(cold_sources)
  if(ARG_COLD_FILES)
    set(cold_sources ${sources})
    list(FILTER cold_sources INCLUDE REGEX "/src/(${name}|${ARG_WITH})/(${ARG_COLD_FILES})")
    list(REMOVE_ITEM sources ${cold_sources})
    gabbro_compile_alone(${cold_sources})
    add_library(gabbro_${name}_cold OBJECT ${cold_sources})
    target_link_libraries(gabbro_${name}_cold PRIVATE gabbro_options ${ARG_DEPS})
    set_target_properties(gabbro_${name}_cold PROPERTIES UNITY_BUILD_BATCH_SIZE 32 CXX_VISIBILITY_PRESET hidden)
    target_compile_options(gabbro_${name}_cold PRIVATE $<$<CONFIG:Release>:-O1>)
    gabbro_precompile_like(gabbro_${name}_cold gabbro_cold_headers)
    set(cold_sources $<TARGET_OBJECTS:gabbro_${name}_cold>)
  endif()
  if(sources)
    gabbro_compile_alone(${sources})
    add_library(gabbro_${name} STATIC ${sources} ${cold_sources})
    target_link_libraries(gabbro_${name} PUBLIC gabbro_options ${ARG_DEPS})
    # Only names of include/gabbro are visible outside libgabbro.so: its headers say so by a pragma.
    set_target_properties(gabbro_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ARG_BATCH} CXX_VISIBILITY_PRESET hidden)
    # Precompiled headers serve targets of the same options: one set for the cold modules, and one for the others.
    set(first gabbro_base)
    if(ARG_COLD)
      target_compile_options(gabbro_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
      set(first gabbro_cold_headers)
    endif()
    if(ARG_PRECOMPILE OR name STREQUAL base)
      gabbro_precompile(gabbro_${name} ${ARG_PRECOMPILE})
    else()
      gabbro_precompile_like(gabbro_${name} ${first})
    endif()
  else()
    add_library(gabbro_${name} INTERFACE)
    target_link_libraries(gabbro_${name} INTERFACE gabbro_options ${ARG_DEPS})
  endif()
  if(GABBRO_TESTS AND tests)
    gabbro_test(${name}_test SOURCES ${tests} DEPS gabbro_${name} LABEL pure)
  endif()
endfunction()

# Options of the tests' own sources. Expectations make much code that runs once: with all of the optimizer, the sanitizers and
# coverage these files would take longer to compile than the program. Preset `asan` keeps the address sanitizer in them.
set(gabbro_test_options $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
if(GABBRO_COVERAGE)
  list(APPEND gabbro_test_options -fno-sanitize=all -fno-profile-arcs -fno-test-coverage)
elseif(GABBRO_SANITIZE MATCHES undefined)
  list(APPEND gabbro_test_options -fno-sanitize=undefined)
endif()

# gabbro_test(name SOURCES files... DEPS targets... LABEL label): one GoogleTest program, registered with CTest as one test;
# with the label per_backend on the CPU, also where there is a GPU. Nothing that was measured on this machine counts.
function(gabbro_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  set(tests ${ARG_SOURCES})
  list(TRANSFORM tests PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/$]")
  set(others ${tests})
  list(FILTER tests INCLUDE REGEX "^[$]|_test\\.cc$|^${CMAKE_SOURCE_DIR}/tests/")
  list(FILTER others EXCLUDE REGEX "^[$]|_test\\.cc$|^${CMAKE_SOURCE_DIR}/tests/")
  gabbro_compile_alone(${tests})
  add_executable(${name} ${tests})
  target_compile_options(${name} PRIVATE ${gabbro_test_options})
  if(others)  # the program's own sources, with the program's options
    add_library(${name}_program OBJECT ${others})
    set_target_properties(${name}_program PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${name}_program PRIVATE ${ARG_DEPS})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${name}_program>)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main rapidcheck)
  target_compile_definitions(${name} PRIVATE GABBRO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${gabbro_test_seconds}
    ENVIRONMENT "GABBRO_BUILD_DIR=${CMAKE_BINARY_DIR};GABBRO_TUNING_FILE=$<$<STREQUAL:${ARG_LABEL},per_backend>:;GABBRO_DEVICE=cpu>")
endfunction()

# gabbro_server_page(): adds to gabbro_server the function page_files() of src/server/web/page_files.h.
function(gabbro_server_page)
  set(folder ${CMAKE_SOURCE_DIR}/src/server/web)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  set(named "")
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    list(APPEND named "${name}=${file}")
  endforeach()
  gabbro_embed(gabbro_server gabbro::server src/server/web/page_files.h PageFile page_files ${named})
endfunction()

# gabbro_hub_names(): adds src/hub/short_names.txt and the headers of libcurl and libcrypto to gabbro_hub.
function(gabbro_hub_names)
  set(folder ${CMAKE_SOURCE_DIR}/src/hub)
  file(READ ${folder}/short_names.txt short_names)
  configure_file(${folder}/short_names.cc.in ${CMAKE_BINARY_DIR}/short_names.cc @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/short_names.txt)
  target_sources(gabbro_hub PRIVATE ${CMAKE_BINARY_DIR}/short_names.cc)
  target_include_directories(gabbro_hub PRIVATE ${CURL_INCLUDE_DIRS} ${CRYPTO_INCLUDE_DIRS})
  target_link_libraries(gabbro_hub PUBLIC ${CMAKE_DL_LIBS})
endfunction()

# gabbro_op_cases(): the library gabbro_op_cases of src/ops/cases, for tests.
function(gabbro_op_cases)
  if(GABBRO_TESTS)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cases/*.cc)
    add_library(gabbro_op_cases STATIC ${sources})
    target_compile_options(gabbro_op_cases PRIVATE ${gabbro_test_options})
    target_link_libraries(gabbro_op_cases PUBLIC gabbro_ops nlohmann_json::nlohmann_json)
    set_target_properties(gabbro_op_cases PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# gabbro_fuzzer(name DEPS targets...): tests/fuzz/fuzz_<name>.cc, which defines LLVMFuzzerTestOneInput. With the preset
# `fuzz` it becomes the libFuzzer program fuzz_<name>, and CTest runs it for GABBRO_FUZZ_SECONDS from the committed
# corpus; everywhere else it becomes a test that replays the corpus.
function(gabbro_fuzzer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(GABBRO_FUZZ)
    add_executable(fuzz_${name} fuzz_${name}.cc)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # New inputs go to a folder of the build; the committed corpus is only read. 10 s for one input is a hang.
    set(grown ${CMAKE_BINARY_DIR}/corpus/${name})
    file(MAKE_DIRECTORY ${grown})
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} -max_total_time=${GABBRO_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
      -artifact_prefix=${CMAKE_BINARY_DIR}/ -print_final_stats=1 ${grown} ${corpus})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 900)
  else()
    add_executable(fuzz_${name} fuzz_${name}.cc replay.cc)
    set_target_properties(fuzz_${name} PROPERTIES UNITY_BUILD OFF)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${corpus})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS pure TIMEOUT 300)
  endif()
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPS})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()
