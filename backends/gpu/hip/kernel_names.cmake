# cmake -DCOMPILER=... -DROOT=... -DOUTPUT=... -P kernel_names.cmake: writes the table of kernel_files.h, the kernels that
# each source of kernels/ defines. The preprocessor expands the macros that define them, each into a mark with its name.
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/kernels/*.cc)
set(all "#include \"backends/gpu/hip/kernel_names.h\"\n")
foreach(source IN LISTS sources)
  string(APPEND all "#include \"${source}\"\n")
endforeach()
set(input ${OUTPUT}.names.cc)
file(WRITE ${input} "${all}")
execute_process(COMMAND ${COMPILER} -std=c++20 -w -E -P -DGABBRO_SIM_WAVE=32 -I${ROOT} -I${ROOT}/include ${input}
  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "gabbro_kernel_name\\([a-z0-9_]+, \"[^\"]*\"\\)" marks "${text}")
set(rows "")
foreach(mark IN LISTS marks)
  string(REGEX REPLACE ".*\\(([a-z0-9_]+), \"([^\"]*)\"\\)" "    {\"\\1\", \"\\2\"},\n" row "${mark}")
  string(REPLACE "\"${ROOT}/" "\"" row "${row}")
  list(APPEND rows "${row}")
endforeach()
list(SORT rows)
list(JOIN rows "" rows)
file(WRITE ${OUTPUT} "#include \"backends/gpu/hip/kernel_files.h\"\n\nnamespace gabbro::gpu::hip {\n\nstd::span<const KernelFile> kernel_files() {\n"
  "  static constexpr KernelFile kFiles[] = {\n${rows}  };\n  return kFiles;\n}\n\n}  // namespace gabbro::gpu::hip\n")
file(REMOVE ${input})
