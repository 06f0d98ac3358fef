# `pinfold` and `pinfold-oci` are linked with musl where the host has musl-gcc and the archives of the libraries: at its start glibc
# asks the processor some eighty questions (CPUID), and under a hypervisor each of them is a trap: 0.65 ms of a run of 5.
# They come from a build of its own within this one (PIN_LIBC_MUSL); all other programs stay with glibc.
#
#   PIN_MUSL_PROGRAM  in the outer build: make both in the inner one
#   pin_musl          in the inner build: what musl lacks, and how to link
option(PIN_MUSL "link pinfold with musl where that can be done" ON)
option(PIN_LIBC_MUSL "this is the inner build, with musl-gcc" OFF)

set(PIN_MUSL_PROGRAM OFF)
find_program(PIN_MUSL_GCC musl-gcc)
find_path(PIN_MUSL_FOLDER rcrt1.o NO_DEFAULT_PATH
    PATHS "/usr/lib/${CMAKE_SYSTEM_PROCESSOR}-linux-musl" /usr/lib/musl/lib /usr/local/musl/lib)
if(PIN_MUSL AND PIN_MUSL_GCC AND PIN_MUSL_FOLDER AND PIN_STATIC_LIBRARIES AND CMAKE_C_COMPILER_ID STREQUAL "GNU"
   AND NOT PIN_LIBC_MUSL AND NOT PIN_SANITIZE AND NOT PIN_COVERAGE AND NOT PIN_FUZZ)
    set(PIN_MUSL_PROGRAM ON)
    foreach(library jansson uring seccomp md psl idn2 unistring)
        find_library(PIN_ARCHIVE_${library} "lib${library}.a")
        if(NOT PIN_ARCHIVE_${library})
            set(PIN_MUSL_PROGRAM OFF)
        endif()
    endforeach()
endif()

if(PIN_LIBC_MUSL)
    set(CMAKE_C_LIBRARY_ARCHITECTURE "${PIN_HOST_ARCHITECTURE}") # musl-gcc says nothing of it
    # The kernel's headers lie beside glibc's: they are looked up after musl's own. What converts into what is checked
    # with glibc's headers, whose types are the wider ones.
    add_compile_options(-isystem "${CMAKE_SOURCE_DIR}/base/musl/include" "SHELL:-idirafter /usr/include" "SHELL:-idirafter /usr/include/${PIN_HOST_ARCHITECTURE}")
    target_compile_options(pin_flags INTERFACE -Wno-conversion -Wno-sign-conversion)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "#include <errno.h>"
        COMMAND "${CMAKE_C_COMPILER}" -E -dM -x c - OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "#define E[A-Z0-9]+ [0-9]+\n" macros "${macros}")
    list(TRANSFORM macros REPLACE "#define (E[A-Z0-9]+) ([0-9]+)\n" "    [\\2] = \"\\1\",\n")
    list(JOIN macros "" macros)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/pin_errno_names.h"
        CONTENT "static const char *const pin_errno_names[] = {\n${macros}};\n")

    add_library(pin_musl OBJECT base/musl/gnu.c base/musl/heap.c
        $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:base/musl/copy.c>)
    target_link_libraries(pin_musl PRIVATE pin_flags)
    target_compile_options(pin_musl PRIVATE -fPIE -fno-builtin -fno-tree-loop-distribute-patterns)
    # Debian's musl-gcc knows no -static-pie: its parts, by hand.
    set(PIN_MUSL_LINK -static -nostartfiles -Wl,-pie -Wl,--no-dynamic-linker -Wl,-z,text
        "${PIN_MUSL_FOLDER}/rcrt1.o" "${PIN_MUSL_FOLDER}/crti.o" "${PIN_MUSL_FOLDER}/crtn.o")
endif()
