// Functions of the C library that glibc (2.35 and later, x86-64) also has for vectors: loops over them become calls of
// these, at most 2.5 units in the last place from the result (f32 atan2: 3). Elsewhere they are called one by one.
#pragma once

#include <cmath>

#if defined(GABBRO_LIBMVEC) && defined(__GNUC__) && !defined(__clang__)
#define GABBRO_VECTOR_FUNCTION [[gnu::simd("notinbranch")]]
#else
#define GABBRO_VECTOR_FUNCTION
#endif

extern "C" {
GABBRO_VECTOR_FUNCTION double log2(double) noexcept;
GABBRO_VECTOR_FUNCTION double log10(double) noexcept;
GABBRO_VECTOR_FUNCTION double sinh(double) noexcept;
GABBRO_VECTOR_FUNCTION double cosh(double) noexcept;
GABBRO_VECTOR_FUNCTION double asin(double) noexcept;
GABBRO_VECTOR_FUNCTION double acos(double) noexcept;
GABBRO_VECTOR_FUNCTION double atan(double) noexcept;
GABBRO_VECTOR_FUNCTION double asinh(double) noexcept;
GABBRO_VECTOR_FUNCTION double acosh(double) noexcept;
GABBRO_VECTOR_FUNCTION double atanh(double) noexcept;
GABBRO_VECTOR_FUNCTION double erf(double) noexcept;
GABBRO_VECTOR_FUNCTION double erfc(double) noexcept;
GABBRO_VECTOR_FUNCTION double pow(double, double) noexcept;
GABBRO_VECTOR_FUNCTION double atan2(double, double) noexcept;
GABBRO_VECTOR_FUNCTION double hypot(double, double) noexcept;
GABBRO_VECTOR_FUNCTION float powf(float, float) noexcept;
GABBRO_VECTOR_FUNCTION float atan2f(float, float) noexcept;
GABBRO_VECTOR_FUNCTION float hypotf(float, float) noexcept;
}
