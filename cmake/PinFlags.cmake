# pin_flags carries what every file of the project is compiled and linked with.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

option(PIN_WERROR "treat warnings as errors" OFF)
option(PIN_HARDEN "compile with the hardening flags" ON)
option(PIN_COVERAGE "measure coverage" OFF)
set(PIN_SANITIZE "" CACHE STRING "sanitizers, as for -fsanitize=")

# -O2 with unused sections left out starts sooner than -O3: fewer pages are touched. Assertions stay.
set(CMAKE_C_FLAGS_RELEASE "-O2 -ffunction-sections -fdata-sections")
string(APPEND CMAKE_EXE_LINKER_FLAGS_RELEASE " -Wl,--gc-sections")

add_library(pin_flags INTERFACE)
target_include_directories(pin_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
target_compile_definitions(pin_flags INTERFACE _GNU_SOURCE PIN_VERSION="${PROJECT_VERSION}")
target_compile_options(pin_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wundef -Wcast-qual -Wwrite-strings
    -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wswitch-enum -fno-common -fno-strict-aliasing)
if(PIN_WERROR)
    target_compile_options(pin_flags INTERFACE -Werror)
endif()

if(PIN_HARDEN)
    set(hardening -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
        -ftrivial-auto-var-init=zero)
    foreach(flag IN LISTS hardening)
        string(MAKE_C_IDENTIFIER "PIN_HAVE${flag}" have)
        check_c_compiler_flag(${flag} ${have})
        if(${have})
            target_compile_options(pin_flags INTERFACE ${flag})
        endif()
    endforeach()
    if(NOT PIN_SANITIZE)
        # FORTIFY needs optimisation, and hides faults from the sanitizers.
        target_compile_options(pin_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
            $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
    endif()
    target_link_options(pin_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
if(PIN_SANITIZE)
    target_compile_options(pin_flags INTERFACE -fsanitize=${PIN_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(pin_flags INTERFACE -fsanitize=${PIN_SANITIZE})
endif()
if(PIN_COVERAGE)
    target_compile_options(pin_flags INTERFACE --coverage)
    target_link_options(pin_flags INTERFACE --coverage)
endif()
