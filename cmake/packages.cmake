# `cpack` makes a .deb of what `cmake --install` installs. A build for one machine alone says so.
set(GABBRO_MAINTAINER "Gabbro developers <gabbro@localhost>" CACHE STRING "The Maintainer field of the .deb")
install(FILES ${CMAKE_SOURCE_DIR}/cmake/copyright DESTINATION share/doc/gabbro)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/systemd/gabbro.service ${CMAKE_SOURCE_DIR}/cmake/systemd/gabbro.socket
  DESTINATION share/doc/gabbro/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gabbro)
set(CPACK_PACKAGE_VENDOR Gabbro)
set(CPACK_PACKAGE_CONTACT "${GABBRO_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs language models on AMD and NVIDIA GPUs and CPUs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Gabbro runs language models in GGUF files on the command line. Its backends are
plugins: this package has those that it was built with. GPUs are used through
the libraries of their drivers, which are opened where they are installed. The
C++ library of tensors, networks and language models is in it too, with its
headers.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # needs dpkg-shlibdeps of dpkg-dev
# Opened at run time by downloads alone (src/hub).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4t64 | libcurl4 | libcurl3t64-gnutls | libcurl3-gnutls, libssl3t64 | libssl3, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # libgabbro.so: ldconfig, and dependencies of packages that link it
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(GABBRO_ROCM)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libamdhip64-7 | libamdhip64-6 | hip-runtime-amd")
endif()

set(narrow "")
if(DEFINED GABBRO_CPU_SETS AND NOT GABBRO_CPU_SETS STREQUAL GABBRO_ALL_CPU_SETS)
  string(APPEND narrow " processors with ${GABBRO_CPU_SETS};")
endif()
if(GABBRO_ROCM AND NOT GABBRO_ROCM_TARGETS STREQUAL GABBRO_ALL_ROCM_TARGETS)
  string(APPEND narrow " AMD GPUs of ${GABBRO_ROCM_TARGETS};")
endif()
if(narrow)
  string(REPLACE ";" " " narrow "${narrow}")
  file(WRITE ${CMAKE_BINARY_DIR}/warn_narrow.cmake
    "message(WARNING \"this package is for some machines alone:${narrow}\\ncmake --preset package builds for all\")\n")
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_BINARY_DIR}/warn_narrow.cmake)
endif()
include(CPack)
