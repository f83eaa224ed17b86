# The C++ library: libgabbro.so with the headers of include/gabbro, for find_package(gabbro) and pkg-config. The program and
# the Python extension link the modules statically: they use more than the public API, start without relocating it, and
# cannot meet another version of the library.
add_library(libgabbro SHARED ${CMAKE_CURRENT_LIST_DIR}/library.cc)
target_link_libraries(libgabbro PRIVATE gabbro_train gabbro_engine gabbro_pictures)
target_link_options(libgabbro PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/library.map)
# Modules with public functions: all stay, also if the library itself does not call them.
set_target_properties(libgabbro PROPERTIES
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,gabbro_tensor,gabbro_backend,gabbro_graph,gabbro_ops,gabbro_nn,gabbro_train,gabbro_engine,gabbro_pictures")
set_target_properties(libgabbro PROPERTIES OUTPUT_NAME gabbro EXPORT_NAME gabbro LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/library.map
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # 0.x: a minor version may break
target_include_directories(libgabbro INTERFACE $<INSTALL_INTERFACE:include>)
target_compile_features(libgabbro INTERFACE cxx_std_20)

include(CMakePackageConfigHelpers)
set(package ${CMAKE_BINARY_DIR}/package)
configure_file(${CMAKE_CURRENT_LIST_DIR}/gabbro.pc.in ${package}/gabbro.pc @ONLY)
write_basic_package_version_file(${package}/gabbroConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS libgabbro EXPORT gabbro LIBRARY DESTINATION lib)
install(EXPORT gabbro NAMESPACE gabbro:: FILE gabbroConfig.cmake DESTINATION lib/cmake/gabbro)
install(FILES ${package}/gabbroConfigVersion.cmake DESTINATION lib/cmake/gabbro)
install(FILES ${package}/gabbro.pc DESTINATION lib/pkgconfig)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/gabbro DESTINATION include)
