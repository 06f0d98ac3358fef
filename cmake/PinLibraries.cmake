# The libraries of the hot path are linked statically where the host has their archives: `pinfold run` then
# loads the C library alone, which saves a tenth of a millisecond for each library that isn't loaded.
find_package(PkgConfig REQUIRED)
option(PIN_STATIC_LIBRARIES "link the small libraries statically where their archives are installed" ON)

# PkgConfig::NAME, or an error that says how to mend it.
macro(pin_module name module)
    pkg_check_modules(${name} IMPORTED_TARGET ${module})
    if(NOT ${name}_FOUND)
        message(FATAL_ERROR "the development files of ${module} are missing: 'tools/install-packages build' installs all that a build needs "
            "on Debian 12, 'tools/install-packages test' also what the tests need (-DPIN_TESTS=OFF builds without them)")
    endif()
endmacro()

function(pin_library name module archive)
    pin_module(PC_${name} ${module})
    add_library(pin_${name}_lib INTERFACE)
    set(found "")
    if(PIN_STATIC_LIBRARIES)
        pkg_get_variable(libdir ${module} libdir)
        if(archive AND EXISTS "${libdir}/${archive}")
            set(found "${libdir}/${archive}")
        endif()
    endif()
    if(found)
        target_include_directories(pin_${name}_lib SYSTEM INTERFACE ${PC_${name}_INCLUDE_DIRS})
        target_link_libraries(pin_${name}_lib INTERFACE "${found}")
    else()
        target_link_libraries(pin_${name}_lib INTERFACE PkgConfig::PC_${name})
    endif()
    add_library(pin::${name} ALIAS pin_${name}_lib)
endfunction()

pin_library(jansson jansson libjansson.a)
pin_library(uring liburing liburing.a)
pin_library(seccomp libseccomp libseccomp.a)
pin_library(cap libcap libcap.a)
pin_library(md libmd libmd.a)

# Which names are public suffixes, and how names that aren't ASCII are written in ASCII. The first one's
# archive needs the second's.
find_library(PIN_IDN2_ARCHIVE libidn2.a)
find_library(PIN_UNISTRING_ARCHIVE libunistring.a)
if(PIN_IDN2_ARCHIVE AND PIN_UNISTRING_ARCHIVE)
    pin_library(idn2 libidn2 libidn2.a)
    pin_library(psl libpsl libpsl.a)
    target_link_libraries(pin_idn2_lib INTERFACE "${PIN_UNISTRING_ARCHIVE}")
    target_link_libraries(pin_psl_lib INTERFACE "${PIN_IDN2_ARCHIVE}" "${PIN_UNISTRING_ARCHIVE}")
else()
    pin_library(idn2 libidn2 "")
    pin_library(psl libpsl "")
endif()
pin_library(sqlite sqlite3 libsqlite3.a)
