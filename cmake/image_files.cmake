# gabbro_image_files: libpng and libjpeg-turbo. The static libraries, where there are such: a program has to start
# everywhere, and libjpeg's name has another number in each distribution.
find_path(GABBRO_PNG_INCLUDE png.h REQUIRED)
find_path(GABBRO_JPEG_INCLUDE jpeglib.h REQUIRED)
find_library(GABBRO_PNG_LIBRARY NAMES libpng16.a png16 png REQUIRED)
find_library(GABBRO_JPEG_LIBRARY NAMES libjpeg.a jpeg REQUIRED)
find_library(GABBRO_ZLIB_LIBRARY NAMES libz.a z REQUIRED)
add_library(gabbro_image_files INTERFACE)
target_include_directories(gabbro_image_files SYSTEM INTERFACE ${GABBRO_PNG_INCLUDE} ${GABBRO_JPEG_INCLUDE})
target_link_libraries(gabbro_image_files INTERFACE ${GABBRO_PNG_LIBRARY} ${GABBRO_ZLIB_LIBRARY} ${GABBRO_JPEG_LIBRARY} m)
