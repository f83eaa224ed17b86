# gabbro_code_images(target FILES files...): adds to `target` the table of code_images.h, with the contents of the files.
function(gabbro_code_images target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(text "#include \"backends/gpu/code_images.h\"\n\n")
  set(rows "")
  set(index 0)
  foreach(file IN LISTS ARG_FILES)
    get_filename_component(name ${file} NAME_WE)
    set(symbol gabbro_image_${index})
    string(APPEND text "__asm__(\".section .rodata\\n.balign 4096\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n\"\n"
      "        \".incbin \\\"${file}\\\"\\n.hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.previous\");\n"
      "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", ${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND text "\nnamespace gabbro::gpu {\n\nstd::span<const CodeImage> code_images() {\n"
    "  static const CodeImage kImages[] = {\n${rows}  };\n  return kImages;\n}\n\n}  // namespace gabbro::gpu\n")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_images.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${ARG_FILES}")
  target_sources(${target} PRIVATE ${source})
endfunction()
