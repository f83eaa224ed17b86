# gabbro_embed(target namespace header type function files...): adds to `target` the function
# `const std::vector<TYPE>& FUNCTION()` that `header` declares in `namespace`; a TYPE has a name and a text. The files are
# written as "name=path". The assembler reads them: as string literals they would be slow to compile and too long for some
# compilers.
function(gabbro_embed target namespace header type function)
  set(text "#include \"${header}\"\n\n")
  set(rows "")
  set(all "")
  set(index 0)
  foreach(entry IN LISTS ARGN)
    string(REGEX REPLACE "=.*" "" name "${entry}")
    string(REGEX REPLACE "^[^=]*=" "" file "${entry}")
    set(symbol ${target}_file_${index})
    string(APPEND text "__asm__(\".section .rodata\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n\"\n"
      "        \".incbin \\\"${file}\\\"\\n.hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.previous\");\n"
      "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", {${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}},\n")
    list(APPEND all ${file})
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND text "\nnamespace ${namespace} {\n\nconst std::vector<${type}>& ${function}() {\n"
    "  static const std::vector<${type}> kFiles = {\n${rows}  };\n  return kFiles;\n}\n\n}  // namespace ${namespace}\n")
  set(source ${CMAKE_BINARY_DIR}/${target}_files.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${all}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
